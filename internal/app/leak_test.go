// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"bytes"
	"context"
	"fmt"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"podfit.dev/podfit/internal/app/process"
	"podfit.dev/podfit/test/kubetest"
)

// A program is a command that runs until it is ended.
type program struct {
	args   []string
	does   []string // requests by which it is known to work
	leases bool     // it creates the lease of the admission controller
}

// The lease of the admission controller.
const (
	leasesPath = "/apis/coordination.k8s.io/v1/leases"
	lifeKey    = "kube-system/vpa-admission-controller"
)

// works reports whether the program has sent its requests to an API server.
func (p *program) works(api *kubetest.FakeAPI) bool {
	sent := map[string]bool{}
	for _, q := range api.Log() {
		sent[q.Verb+" "+q.Path] = true
	}
	return !slices.ContainsFunc(p.does, func(r string) bool { return !sent[r] }) && (!p.leases || api.Object(leasesPath, lifeKey) != nil)
}

// createdBy is the line of a stack that says which function started the goroutine.
var createdBy = regexp.MustCompile(`(?m)^created by (\S+)`)

// goroutines returns how many goroutines there are, by the function that started them, and their stacks.
func goroutines() (map[string]int, string) {
	buf := make([]byte, 1<<22)
	stacks := string(buf[:runtime.Stack(buf, true)])
	count := map[string]int{}
	for _, stack := range strings.Split(stacks, "\n\n") {
		if m := createdBy.FindStringSubmatch(stack); m != nil {
			count[m[1]]++
		}
	}
	return count, stacks
}

// What a command starts it ends: nothing is left after three starts that was not there before.
func TestCommands_startedAndEnded_leaveNoGoroutine(t *testing.T) {
	const metrics, life = "GET /apis/metrics.k8s.io/v1beta1/pods", "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/vpa-admission-controller"
	for _, tt := range []program{
		{[]string{"recommender", "--leader-elect"}, []string{metrics}, false},
		{[]string{"updater", "--leader-elect"}, []string{"GET " + life}, false},
		{[]string{"admission-controller", "--port=0", "--register-by-url", "--webhook-address=127.0.0.1"}, nil, true},
		{[]string{"run", "--leader-elect", "--port=0", "--register-by-url", "--webhook-address=127.0.0.1"}, []string{metrics, "GET " + life}, true},
	} {
		t.Run(tt.args[0], func(t *testing.T) {
			start := func() {
				api := kubetest.NewFakeAPI(t)
				defer api.Stop()
				ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
				defer cancel()
				var out bytes.Buffer
				ended := make(chan error, 1)
				root := Root(process.Streams{Out: &out, Err: &out})
				root.SetArgs(append(slices.Clone(tt.args), "--kubeconfig="+kubetest.Kubeconfig(t, api.URL()), "--address=127.0.0.1:0"))
				go func() { ended <- root.ExecuteContext(ctx) }()
				for ctx.Err() == nil && len(ended) == 0 && !tt.works(api) {
					time.Sleep(10 * time.Millisecond)
				}
				worked := tt.works(api)
				cancel()
				if err := <-ended; err != nil || !worked {
					t.Fatalf("it ended with %v; it worked: %t; requests %v; it said\n%s", err, worked, api.Counts(), out.String())
				}
			}
			before, _ := goroutines()
			for range 3 {
				start()
			}
			left := func() []string {
				now, _ := goroutines()
				var out []string
				for by, n := range now {
					if n > before[by] {
						out = append(out, fmt.Sprintf("%d started by %s", n-before[by], by))
					}
				}
				slices.Sort(out)
				return out
			}
			for deadline := time.Now().Add(10 * time.Second); len(left()) > 0 && time.Now().Before(deadline); {
				time.Sleep(10 * time.Millisecond) // connections end a moment after their server
			}
			if found := left(); len(found) > 0 {
				_, stacks := goroutines()
				t.Errorf("left: %s\n%s", strings.Join(found, ", "), stacks)
			}
		})
	}
}
