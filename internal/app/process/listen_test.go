// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package process

import (
	"log/slog"
	"net"
	"net/http"
	"strings"
	"testing"
)

func TestServe_addressIsUnusable_errorHasTheRemedy(t *testing.T) {
	busy, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer busy.Close()
	for address, want := range map[string]string{
		busy.Addr().String(): "another process uses this port; end it, or choose another port with --address",
		"nonsense":           `--address must be an address such as :8942 or 127.0.0.1:8942, got "nonsense"`,
		"127.0.0.1:99999":    `--address must be an address such as :8942 or 127.0.0.1:8942, got "127.0.0.1:99999"`,
		"192.0.2.1:8942":     "listen on --address 192.0.2.1:8942: ",
	} {
		err := serve(t.Context(), slog.New(slog.DiscardHandler), address, http.NotFoundHandler())
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got error %v, want %q", address, err, want)
		}
	}
}
