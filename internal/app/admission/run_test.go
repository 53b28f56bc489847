// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package admission

import (
	"bytes"
	"context"
	"log/slog"
	"net"
	"strings"
	"testing"
)

func TestRun_portInUse_failsUnlessStandalone(t *testing.T) {
	listener, err := net.Listen("tcp", ":0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = listener.Close() }()
	config := Defaults()
	config.Port = listener.Addr().(*net.TCPAddr).Port
	for _, standalone := range []bool{true, false} {
		var log bytes.Buffer
		ctx, cancel := context.WithCancel(t.Context())
		j := &job{config: &config, log: slog.New(slog.NewTextHandler(&log, nil)), standalone: standalone}
		ended := make(chan error)
		go func() { ended <- j.run(ctx) }()
		if standalone {
			select {
			case err := <-ended:
				t.Errorf("standalone: got error %v before the end of the context", err)
			default:
				cancel()
				if err := <-ended; err != nil {
					t.Errorf("standalone: got %v, want no error", err)
				}
			}
		} else if err := <-ended; err == nil || !strings.Contains(err.Error(), "listen on --port") {
			t.Errorf("got %v, want an error that names the flag", err)
		}
		cancel()
		if got := strings.Contains(log.String(), "Webhook not served"); got != standalone {
			t.Errorf("standalone %t: log %q", standalone, log.String())
		}
	}
}
