// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package process

import (
	"context"
	"errors"
	"testing"
)

func TestTogether_oneFails_otherIsEnded(t *testing.T) {
	failure := errors.New("no connection")
	ended := false
	err := Together(
		func(ctx context.Context) error { <-ctx.Done(); ended = true; return nil },
		func(context.Context) error { return failure },
	)(t.Context())
	if !errors.Is(err, failure) || !ended {
		t.Errorf("error %v, the other one ended: %t", err, ended)
	}
}
