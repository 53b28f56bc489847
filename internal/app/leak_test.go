// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"podfit.dev/podfit/internal/app/process"
)

// emptyCluster is an API server without objects but leases. Watches stay open until the client ends them, and what is
// created is given back.
type emptyCluster struct {
	mu       sync.Mutex
	leases   map[string]stored
	requests map[string]bool // method and path
}

// stored is an object as it was sent.
type stored struct {
	kind string
	body []byte
}

var listKinds = map[string]string{
	"pods": "v1 PodList", "nodes": "v1 NodeList", "events": "v1 EventList", "limitranges": "v1 LimitRangeList", "resourcequotas": "v1 ResourceQuotaList",
	"poddisruptionbudgets":     "policy/v1 PodDisruptionBudgetList",
	"horizontalpodautoscalers": "autoscaling/v2 HorizontalPodAutoscalerList",
	"replicationcontrollers":   "v1 ReplicationControllerList", "replicasets": "apps/v1 ReplicaSetList", "statefulsets": "apps/v1 StatefulSetList",
	"daemonsets": "apps/v1 DaemonSetList", "deployments": "meta.k8s.io/v1 PartialObjectMetadataList", "jobs": "meta.k8s.io/v1 PartialObjectMetadataList",
	"cronjobs": "meta.k8s.io/v1 PartialObjectMetadataList", "verticalpodautoscalers": "autoscaling.k8s.io/v1 VerticalPodAutoscalerList",
	"verticalpodautoscalercheckpoints": "autoscaling.k8s.io/v1 VerticalPodAutoscalerCheckpointList",
	"updatestates":                     "podfit.dev/v1alpha1 UpdateStateList",
	"usagehistories":                   "podfit.dev/v1alpha1 UsageHistoryList", "sizingprofiles": "podfit.dev/v1alpha1 SizingProfileList",
}

func (c *emptyCluster) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	c.mu.Lock()
	c.requests[r.Method+" "+r.URL.Path] = true
	lease, exists := c.leases[r.URL.Path]
	c.mu.Unlock()
	path := strings.Split(r.URL.Path, "/")
	kind, isList := listKinds[path[len(path)-1]]
	if strings.Contains(r.URL.Path, "metrics.k8s.io") {
		kind = "metrics.k8s.io/v1beta1 PodMetricsList"
	}
	switch {
	case r.Method == http.MethodGet && exists:
		w.Header().Set("Content-Type", lease.kind)
		_, _ = w.Write(lease.body)
	case r.URL.Query().Get("sendInitialEvents") != "":
		answer(w, 422, &metav1.Status{TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}, Status: "Failure", Code: 422, Reason: metav1.StatusReasonInvalid})
	case r.URL.Query().Get("watch") != "":
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusOK)
		w.(http.Flusher).Flush()
		<-r.Context().Done()
	case r.Method == http.MethodGet && isList:
		version, name, _ := strings.Cut(kind, " ")
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprintf(w, `{"apiVersion":%q,"kind":%q,"metadata":{"resourceVersion":"1"},"items":[]}`, version, name)
	case r.Method == http.MethodPost || r.Method == http.MethodPut:
		body, _ := io.ReadAll(r.Body)
		c.store(r, body)
		w.Header().Set("Content-Type", r.Header.Get("Content-Type"))
		w.WriteHeader(http.StatusCreated)
		_, _ = w.Write(body)
	case r.URL.Path == "/api":
		answer(w, 200, &metav1.APIVersions{TypeMeta: metav1.TypeMeta{Kind: "APIVersions"}})
	case r.URL.Path == "/apis":
		answer(w, 200, &metav1.APIGroupList{TypeMeta: metav1.TypeMeta{Kind: "APIGroupList", APIVersion: "v1"}})
	default:
		answer(w, 404, &metav1.Status{TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}, Status: "Failure", Code: 404, Reason: metav1.StatusReasonNotFound})
	}
}

// store keeps a lease that is created or renewed.
func (c *emptyCluster) store(r *http.Request, body []byte) {
	path := r.URL.Path
	if !strings.Contains(path, "/leases") {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if r.Method == http.MethodPost {
		path += "/" + regexp.MustCompile(`(vpa|podfit)[a-z-]*`).FindString(string(body))
		c.requests["POST "+path] = true
	}
	c.leases[path] = stored{r.Header.Get("Content-Type"), body}
}

func (c *emptyCluster) has(requests []string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return !slices.ContainsFunc(requests, func(r string) bool { return !c.requests[r] })
}

func answer(w http.ResponseWriter, code int, o any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	_ = json.NewEncoder(w).Encode(o)
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
	for _, tt := range []struct {
		args []string
		does []string // requests by which it is known to work
	}{
		{[]string{"recommender", "--leader-elect"}, []string{metrics}},
		{[]string{"updater", "--leader-elect"}, []string{"GET " + life}},
		{[]string{"admission-controller", "--port=0", "--register-by-url", "--webhook-address=127.0.0.1"}, []string{"POST " + life}},
		{[]string{"run", "--leader-elect", "--port=0", "--register-by-url", "--webhook-address=127.0.0.1"}, []string{metrics, "GET " + life, "POST " + life}},
	} {
		t.Run(tt.args[0], func(t *testing.T) {
			start := func() {
				c := &emptyCluster{leases: map[string]stored{}, requests: map[string]bool{}}
				srv := httptest.NewServer(c)
				defer srv.Close()
				defer srv.CloseClientConnections()
				kubeconfig := filepath.Join(t.TempDir(), "kubeconfig")
				if err := os.WriteFile(kubeconfig, fmt.Appendf(nil, `{apiVersion: v1, kind: Config, current-context: c,
contexts: [{name: c, context: {cluster: c}}], clusters: [{name: c, cluster: {server: %q}}]}`, srv.URL), 0o600); err != nil {
					t.Fatal(err)
				}
				ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
				defer cancel()
				var out bytes.Buffer
				ended := make(chan error, 1)
				root := Root(process.Streams{Out: &out, Err: &out})
				root.SetArgs(append(slices.Clone(tt.args), "--kubeconfig="+kubeconfig, "--address=127.0.0.1:0"))
				go func() { ended <- root.ExecuteContext(ctx) }()
				for ctx.Err() == nil && len(ended) == 0 && !c.has(tt.does) {
					time.Sleep(10 * time.Millisecond)
				}
				worked := c.has(tt.does)
				cancel()
				if err := <-ended; err != nil || !worked {
					t.Fatalf("it ended with %v; it worked: %t; requests %v; it said\n%s", err, worked, slices.Sorted(maps.Keys(c.requests)), out.String())
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
