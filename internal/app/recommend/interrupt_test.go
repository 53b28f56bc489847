// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package recommend

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

// An interruption at any request, to the API server or to Prometheus, ends the command soon with exit code 3. What it prints is a whole report
// that names what is missing, or nothing.
func TestRecommend_interruptedAtAnyRequest_endsWithExitCode3(t *testing.T) {
	for _, source := range []string{"cluster", "prometheus", "auto"} {
		t.Run(source, func(t *testing.T) {
			for at, finished := int32(1), false; !finished; at++ {
				if at > 200 {
					t.Fatal("the command never ends by itself")
				}
				finished = interruptedAt(t, source, at)
			}
		})
	}
}

// interruptedAt runs the command and interrupts it at a request, which is not answered. The result is true if there were fewer requests.
func interruptedAt(t *testing.T, source string, at int32) bool {
	t.Helper()
	t.Setenv("XDG_CACHE_HOME", t.TempDir())
	ctx, interrupt := context.WithCancel(t.Context())
	defer interrupt()
	var requests atomic.Int32
	path := ""
	hold := func(r *http.Request) {
		if requests.Add(1) == at {
			path = r.URL.Path + " " + r.URL.Query().Get("query")
			interrupt()
			<-r.Context().Done()
		}
	}
	f := shop(t)
	refuse(f, func(r *http.Request) bool { hold(r); return false })
	p := &prometheus{pods: recordedPods()}
	recorded := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { hold(r); p.ServeHTTP(w, r) }))
	args := []string{"--kubeconfig", kubeconfig(t, f.URL()), "--source", source, "-o", "json", "--fail-on", "risk", "--history", "2d"}
	if source != "cluster" {
		args = append(args, "--prometheus", recorded)
	}
	ended := make(chan result, 1)
	go func() { ended <- runCommand(ctx, args...) }()
	var r result
	select {
	case r = <-ended:
	case <-time.After(30 * time.Second):
		t.Fatalf("request %d, %s: the command does not end", at, path)
	}
	if requests.Load() < at {
		return true
	}
	if r.code != exitPartial {
		t.Errorf("request %d, %s: exit code %d, %s", at, path, r.code, r.errs)
	}
	var report struct{ Missing []string }
	switch err := json.Unmarshal([]byte(r.out), &report); {
	case r.out == "" && !strings.Contains(r.errs, "interrupted"):
		t.Errorf("request %d, %s: error %s", at, path, r.errs)
	case r.out != "" && (err != nil || !strings.Contains(fmt.Sprint(report.Missing), "interrupted")):
		t.Errorf("request %d, %s: %v, missing %q", at, path, err, report.Missing)
	}
	return false
}
