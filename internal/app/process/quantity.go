// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/api/resource"
)

// quantity is a flag that holds a Kubernetes quantity; an empty text means unset.
type quantity struct {
	resource.Quantity
	set bool
}

func (q *quantity) Set(text string) error {
	if strings.TrimSpace(text) == "" {
		*q = quantity{}
		return nil
	}
	v, err := resource.ParseQuantity(text)
	if err != nil {
		return fmt.Errorf("%q is not a quantity such as 500m or 2Gi: %w", text, err)
	}
	if v.Sign() < 0 {
		return fmt.Errorf("%q is negative", text)
	}
	*q = quantity{Quantity: v, set: true}
	return nil
}

func (q *quantity) String() string {
	if !q.set {
		return ""
	}
	return q.Quantity.String()
}

// Type names the flag's type in help texts.
func (q *quantity) Type() string { return "quantity" }
