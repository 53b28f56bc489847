// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package capacity

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/spf13/pflag"

	"podfit.dev/podfit/internal/app/process"
	"podfit.dev/podfit/internal/edge/kube"
	"podfit.dev/podfit/internal/edge/kube/actuation"
	"podfit.dev/podfit/test/kubetest"
)

// A drainedCluster is the cluster of fragmented, whose controllers replace evicted pods.
type drainedCluster struct {
	*kubetest.FakeAPI
	t        *testing.T
	lost     bool                                   // the answer to the next change of a node
	refused  string                                 // a request, as writes returns it
	replaced func(name string) (node, ready string) // of the replacement; nil: on n1, ready
	since    func() string                          // since when the replacement is ready; nil: long ago
	stop     context.CancelFunc                     // interrupts the command
	ended    func()                                 // is called after an eviction; may be nil
}

func newDrainedCluster(t *testing.T) *drainedCluster {
	time.Sleep(time.Until(time.Date(2026, 12, 1, 9, 0, 0, 0, time.UTC))) // the pods are older
	d := &drainedCluster{FakeAPI: kubetest.NewLocalAPI(t), t: t}
	fragment(d.FakeAPI)
	d.Handle(func(w http.ResponseWriter, r *http.Request, q kubetest.Request) bool {
		switch {
		case q.Verb == http.MethodGet:
			return false
		case q.Collection == nodesPath && d.lost && !strings.Contains(q.Query, "dryRun"):
			d.lost = false
			edit(t, d.FakeAPI, nodesPath, "/"+q.Name, `{"spec":{"unschedulable":true}}`)
			kubetest.Respond(w, http.StatusInternalServerError, `{"kind":"Status","apiVersion":"v1","status":"Failure","code":500,"reason":"InternalError","message":"lost"}`)
			return true
		case d.refused == written(q):
			kubetest.Respond(w, http.StatusTooManyRequests, `{"kind":"Status","apiVersion":"v1","status":"Failure","code":429,"reason":"TooManyRequests","message":"disruption budget"}`)
			return true
		case strings.Contains(q.Query, "dryRun=All"):
			kubetest.Respond(w, http.StatusOK, kubetest.Success)
			return true
		case q.Sub == "eviction":
			body, _ := io.ReadAll(r.Body)
			if !bytes.Contains(body, []byte(q.Name)) {
				t.Errorf("the eviction has no UID as its precondition: %q", body)
			}
			d.evict(q.Name)
			kubetest.Respond(w, http.StatusCreated, kubetest.Success)
			return true
		}
		return false
	})
	return d
}

// evict replaces a pod.
func (d *drainedCluster) evict(name string) {
	node, ready := "n1", "True"
	if d.replaced != nil {
		node, ready = d.replaced(name)
	}
	o := d.Object(kubetest.PodsPath, "shop/"+name)
	d.Delete(kubetest.PodsPath, "shop/"+name)
	text, err := json.Marshal(o)
	if err != nil {
		d.t.Error(err)
	}
	if d.since != nil {
		text = bytes.ReplaceAll(text, []byte(`"lastTransitionTime":"2026-11-01T00:00:00Z"`), fmt.Appendf(nil, `"lastTransitionTime":%q`, d.since()))
	}
	if node != "" {
		d.Apply(kubetest.PodsPath, strings.NewReplacer(fmt.Sprintf(`"name":%q,"namespace"`, name), fmt.Sprintf(`"name":"%s2","namespace"`, name), fmt.Sprintf(`"uid":%q`, name), fmt.Sprintf(`"uid":"%s2"`, name),
			`"nodeName":"n4"`, fmt.Sprintf(`"nodeName":%q`, node), `"status":"True","type":"Ready"`, fmt.Sprintf(`"status":%q,"type":"Ready"`, ready)).Replace(string(text)))
	}
	if d.ended != nil {
		d.ended()
	}
}

// writes returns the requests that write.
func (d *drainedCluster) writes() (out []string) {
	for _, q := range d.Log() {
		if q.Verb != http.MethodGet && q.Name != "" { // reviews of rights have no name
			out = append(out, written(q))
		}
	}
	return out
}

// written returns a request that writes, that of a dry run in brackets.
func written(q kubetest.Request) string {
	text := q.Verb + " " + q.Name
	switch {
	case q.Sub == "eviction":
		text = "evict " + q.Name
	case q.Collection == nodesPath && q.Verb == http.MethodPatch:
		text = "cordon " + q.Name // or uncordon
	}
	if strings.Contains(q.Query, "dryRun=All") {
		return "[" + text + "]"
	}
	return text
}

func (d *drainedCluster) cordoned(node string) bool {
	spec, _ := d.Object(nodesPath, "/"+node)["spec"].(map[string]any)
	return spec["unschedulable"] == true
}

// apply runs podfit capacity --apply. The person answers yes.
func (d *drainedCluster) apply(answer string, args ...string) (string, error) {
	d.t.Helper()
	ctx, stop := context.WithCancel(d.t.Context())
	defer stop()
	d.stop = stop
	clients, err := kube.ClientsFor(kubetest.LocalConfig(d))
	if err != nil {
		d.t.Fatal(err)
	}
	c := Defaults()
	var out bytes.Buffer
	streams := process.Streams{In: strings.NewReader(answer), Out: &out, Err: io.Discard}
	fs := pflag.NewFlagSet("capacity", pflag.ContinueOnError)
	c.Flags(fs)
	if err := fs.Parse(append(args, "--apply")); err != nil {
		d.t.Fatal(err)
	}
	if err := c.Validate(); err != nil {
		d.t.Fatal(err)
	}
	err = (&drainer{Config: &c, clients: clients, pods: actuation.NewPodWriter(clients), streams: streams}).run(ctx)
	return out.String(), err
}

func TestApply_situation_endsWithItsOutcome(t *testing.T) {
	dry := []string{"[cordon n4]", "[evict web-c]", "[evict api-b]"}
	const cordon, uncordon = "cordon n4", "cordon n4"
	for name, tt := range map[string]struct {
		change   func(d *drainedCluster)
		args     []string
		answer   string
		writes   []string
		cordoned bool
		err      string
		out      string
	}{
		"yes":                     {answer: "y\n", writes: append(slices.Clone(dry), cordon, "evict web-c", "evict api-b"), cordoned: true, out: "Node n4 runs no pods any more"},
		"no":                      {answer: "n\n", writes: dry, out: "Nothing was changed."},
		"silence":                 {writes: dry, out: "Nothing was changed."},
		"dry run":                 {args: []string{"--dry-run"}, writes: dry, out: "accepts each of these requests now"},
		"too few moves permitted": {args: []string{"--max-moves=1", "--yes"}, out: "No plan of at most 1 moves"},
		"room":                    {args: []string{"--yes", "--for=cpu=6,memory=8Gi"}, writes: []string{"[cordon n4]", "[evict web-c]", cordon, "evict web-c", uncordon}, out: "Node n4 has room for 6 cores, 8 GiB."},
		"room is there":           {args: []string{"--yes", "--for=cpu=1"}, out: "There is room for 1 core"},
		"budgets are not known": {
			change: func(d *drainedCluster) {
				d.Reply("GET "+budgetsPath, http.StatusForbidden, `{"kind":"Status","status":"Failure","code":403,"reason":"Forbidden","message":"forbidden"}`)
			},
			args: []string{"--yes"}, err: "the whole cluster can be read: no right to list poddisruptionbudgets; nothing was changed",
		},
		"node without pods": {
			change: func(d *drainedCluster) {
				d.Apply(nodesPath, `{"metadata":{"name":"n5","labels":{"node-role.kubernetes.io/worker":""}},"status":{"allocatable":{"cpu":"8","memory":"32Gi","pods":"110"},"conditions":[{"type":"Ready","status":"True"}]}}`)
			},
			args: []string{"--yes"}, err: "because node n5 runs no pods and replacements could start there",
		},
		"dry run is refused": {
			change: func(d *drainedCluster) { d.refused = "[evict api-b]" },
			args:   []string{"--yes"}, writes: dry, err: "dry run, nothing was changed: evict pod shop/api-b",
		},
		"second eviction is refused": {
			change: func(d *drainedCluster) { d.refused = "evict api-b" },
			args:   []string{"--yes"}, writes: append(slices.Clone(dry), cordon, "evict web-c", "evict api-b", uncordon), err: "evict pod shop/api-b", out: "Node n4 takes pods again.",
		},
		"replacement is not ready": {
			change: func(d *drainedCluster) { d.replaced = func(string) (string, string) { return "n1", "False" } },
			args:   []string{"--yes"}, writes: append(slices.Clone(dry), cordon, "evict web-c", uncordon), err: "pod shop/web-c was evicted 10m0s ago, and it still exists or its replacement is not ready",
		},
		"replacement comes back": {
			change: func(d *drainedCluster) { d.replaced = func(string) (string, string) { return "n4", "True" } },
			args:   []string{"--yes"}, writes: append(slices.Clone(dry), cordon, "evict web-c", uncordon), err: "is on node n4 again",
		},
		"no replacement": {
			change: func(d *drainedCluster) { d.replaced = func(string) (string, string) { return "", "" } },
			args:   []string{"--yes"}, writes: append(slices.Clone(dry), cordon, "evict web-c", uncordon), err: "its replacement is not ready",
		},
		"workload is scaled": {
			change: func(d *drainedCluster) {
				d.ended = func() { edit(d.t, d.FakeAPI, replicaSetsPath, "shop/web", `{"spec":{"replicas":2}}`) }
			},
			args: []string{"--yes"}, writes: append(slices.Clone(dry), cordon, "evict web-c", uncordon), err: "wants has changed from 3 to 2",
		},
		"somebody uncordons the node": {
			change: func(d *drainedCluster) {
				d.ended = func() { edit(d.t, d.FakeAPI, nodesPath, "/n4", `{"spec":{"unschedulable":null}}`) }
			},
			args: []string{"--yes"}, writes: append(slices.Clone(dry), cordon, "evict web-c", uncordon), err: "others have uncordoned node n4",
		},
		"pods that cannot move arrive": {
			change: func(d *drainedCluster) {
				d.ended = func() {
					d.Apply(kubetest.PodsPath, `{"metadata":{"namespace":"shop","name":"bare","uid":"bare"},"spec":{"nodeName":"n4","containers":[{"name":"app"}]},"status":{"phase":"Running"}}`)
				}
			},
			args: []string{"--yes"}, writes: append(slices.Clone(dry), cordon, "evict web-c", uncordon), err: "no plan of at most 9 further moves was found for node n4",
		},
		"node without pods joins": {
			change: func(d *drainedCluster) {
				d.ended = func() {
					d.Apply(nodesPath, `{"metadata":{"name":"n5","labels":{"node-role.kubernetes.io/worker":""}},"status":{"allocatable":{"cpu":"8","memory":"32Gi","pods":"110"},"conditions":[{"type":"Ready","status":"True"}]}}`)
				}
			},
			args: []string{"--yes"}, writes: append(slices.Clone(dry), cordon, "evict web-c", uncordon), err: "because node n5 runs no pods and replacements could start there",
		},
		"replacement must be ready for a while": {
			change: func(d *drainedCluster) {
				edit(d.t, d.FakeAPI, replicaSetsPath, "shop/web", `{"spec":{"minReadySeconds":1200}}`)
				d.since = func() string { return time.Now().UTC().Format(time.RFC3339) }
			},
			args: []string{"--yes"}, writes: append(slices.Clone(dry), cordon, "evict web-c", "evict api-b"), cordoned: true, out: "shop/web-c2 is ready on node n1 after 20m",
		},
		"it is not known whether the node is cordoned": {
			change: func(d *drainedCluster) { d.lost = true },
			args:   []string{"--yes"}, writes: append(slices.Clone(dry), cordon, uncordon), err: "cordon node n4: ", out: "Node n4 takes pods again.",
		},
		"cordon is refused": {
			change: func(d *drainedCluster) { d.refused = cordon },
			args:   []string{"--yes"}, writes: append(slices.Clone(dry), cordon), err: "disruption budget; nothing was changed",
		},
		"pods cannot be read for a minute": {
			change: func(d *drainedCluster) {
				const list = "GET /api/v1/namespaces/shop/pods"
				d.ended = func() {
					d.Reply(list, http.StatusInternalServerError, `{"kind":"Status","status":"Failure","code":500,"reason":"InternalError","message":"no"}`)
					time.AfterFunc(time.Minute, func() { d.ForgetReply(list) })
				}
			},
			args: []string{"--yes"}, writes: append(slices.Clone(dry), cordon, "evict web-c", "evict api-b"), cordoned: true, out: "Node n4 runs no pods any more",
		},
		"clock of this machine is behind": {
			change: func(d *drainedCluster) {
				d.since = func() string { return time.Now().Add(time.Hour).UTC().Format(time.RFC3339) }
			},
			args: []string{"--yes"}, writes: append(slices.Clone(dry), cordon, "evict web-c", "evict api-b"), cordoned: true, out: "shop/web-c2 is ready on node n1 after 2s",
		},
		"interrupted while it evicts": {
			change: func(d *drainedCluster) { d.ended = func() { d.stop() } },
			args:   []string{"--yes"}, writes: append(slices.Clone(dry), cordon, "evict web-c", uncordon), err: "the pod may have been evicted", out: "Node n4 takes pods again.",
		},
		"interrupted while it waits": {
			change: func(d *drainedCluster) {
				d.replaced = func(string) (string, string) { return "n1", "False" }
				d.ended = func() { time.AfterFunc(time.Minute, d.stop) }
			},
			args: []string{"--yes"}, writes: append(slices.Clone(dry), cordon, "evict web-c", uncordon), err: "pod shop/web-c was evicted 1m0s ago", out: "Node n4 takes pods again.",
		},
		"as JSON": {
			args: []string{"--yes", "-o=json"}, writes: append(slices.Clone(dry), cordon, "evict web-c", "evict api-b"), cordoned: true,
			out: `{
      "pod": "shop/api-b",
      "replacement": "shop/api-b2",
      "node": "n1"
    }
  ],
  "reached": true
}`,
		},
		"node was cordoned before": {
			change: func(d *drainedCluster) { edit(d.t, d.FakeAPI, nodesPath, "/n4", `{"spec":{"unschedulable":true}}`) },
			args:   []string{"--yes"}, writes: []string{"[evict web-c]", "[evict api-b]", "evict web-c", "evict api-b"}, cordoned: true, out: "Node n4 runs no pods any more",
		},
		"node was cordoned before, and a surprise": {
			change: func(d *drainedCluster) {
				edit(d.t, d.FakeAPI, nodesPath, "/n4", `{"spec":{"unschedulable":true}}`)
				d.replaced = func(string) (string, string) { return "n1", "False" }
			},
			args: []string{"--yes"}, writes: []string{"[evict web-c]", "[evict api-b]", "evict web-c"}, cordoned: true, err: "its replacement is not ready",
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				d := newDrainedCluster(t)
				if tt.change != nil {
					tt.change(d)
				}
				out, err := d.apply(tt.answer, tt.args...)
				if got := fmt.Sprint(err); (err == nil) != (tt.err == "") || !strings.Contains(got, tt.err) {
					t.Errorf("error %v, want %q", err, tt.err)
				}
				if got := d.writes(); !slices.Equal(got, tt.writes) {
					t.Errorf("writes\n%q, want\n%q", got, tt.writes)
				}
				if !strings.Contains(out, tt.out) || d.cordoned("n4") != tt.cordoned {
					t.Errorf("node is cordoned: %t, want %t; output %s", d.cordoned("n4"), tt.cordoned, out)
				}
			})
		})
	}
}

func TestApply_documentation_showsItsOutput(t *testing.T) {
	page, err := os.ReadFile(filepath.Join("..", "..", "..", "docs", "capacity.md"))
	if err != nil {
		t.Fatal(err)
	}
	synctest.Test(t, func(t *testing.T) {
		out, err := newDrainedCluster(t).apply("y\n", "--max-moves=3")
		plan, moves, _ := strings.Cut(out, "Evict ")
		want := "$ podfit capacity --apply --max-moves 3\n" + plan + "Carry it out? [y/N] y\nEvict " + moves + "```"
		if err != nil || !strings.Contains(string(page), want) {
			t.Errorf("error %v; docs/capacity.md does not have\n%s", err, want)
		}
	})
}

// A person confirms what is changed, or says so in advance.
func TestApply_withoutTerminal_asksForAnAnswerInAdvance(t *testing.T) {
	config := kubeconfig(t, fragmented(t).URL())
	for args, want := range map[string]string{
		"--apply":                      "--apply asks before it changes anything",
		"--dry-run":                    "--dry-run and --yes need --apply",
		"--apply --yes --max-moves 0":  "--apply needs --max-moves of 1 or more",
		"--apply --yes -o html":        "--output table or json",
		"--apply --yes --fail-on node": "does not combine with --fail-on",
	} {
		if r := run(t, append([]string{"--kubeconfig", config}, strings.Fields(args)...)...); r.code != 2 || !strings.Contains(r.errs, want) {
			t.Errorf("%s: exit code %d, %s", args, r.code, r.errs)
		}
	}
	if r := run(t, "--kubeconfig", config, "--apply", "--dry-run"); r.code != 0 || !strings.Contains(r.out, "the API server accepts each of these requests now") {
		t.Errorf("exit code %d, %s%s", r.code, r.errs, r.out)
	}
}
