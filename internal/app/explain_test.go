// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"podfit.dev/podfit/internal/edge/kube/kubetest"
)

// A shop is a cluster with one workload for tests of podfit explain.
type shop struct {
	t   *testing.T
	api *kubetest.FakeAPI
	url string

	mu       sync.Mutex
	requests []string // method, path and query of all requests
}

// The collections of the objects of a shop.
const (
	podsPath     = "/api/v1/pods"
	nodesPath    = "/api/v1/nodes"
	vpasPath     = "/apis/autoscaling.k8s.io/v1/verticalpodautoscalers"
	deployments  = "/apis/apps/v1/deployments"
	replicaSets  = "/apis/apps/v1/replicasets"
	budgetsPath  = "/apis/policy/v1/poddisruptionbudgets"
	hpasPath     = "/apis/autoscaling/v2/horizontalpodautoscalers"
	quotasPath   = "/api/v1/resourcequotas"
	statesPath   = "/apis/podfit.dev/v1alpha1/updatestates"
	metricsPath  = "/apis/metrics.k8s.io/v1beta1/namespaces/shop/pods"
	jobsPath     = "/apis/batch/v1/jobs"
	cronJobsPath = "/apis/batch/v1/cronjobs"
)

// newShop returns a cluster with the Deployment cart, whose pods are too small, its VPA and two nodes.
func newShop(t *testing.T, replicas int) *shop {
	s := &shop{t: t, api: kubetest.NewFakeAPI(t)}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.mu.Lock()
		s.requests = append(s.requests, r.Method+" "+r.URL.RequestURI())
		s.mu.Unlock()
		s.api.ServeHTTP(w, r)
	}))
	t.Cleanup(server.Close)
	s.url = server.URL
	for _, n := range []string{"n1", "n2"} {
		s.apply(nodesPath, `{"apiVersion":"v1","kind":"Node","metadata":{"name":%q},"status":{"allocatable":{"cpu":"4","memory":"8Gi","pods":"110"},
			"conditions":[{"type":"Ready","status":"True"}]}}`, n)
	}
	s.apply(deployments, `{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"namespace":"shop","name":"cart"}}`)
	s.apply(replicaSets, `{"apiVersion":"apps/v1","kind":"ReplicaSet","metadata":{"namespace":"shop","name":"cart-7d9f","ownerReferences":[
		{"apiVersion":"apps/v1","kind":"Deployment","name":"cart","uid":"d","controller":true}]},"spec":{"replicas":%d}}`, replicas)
	s.vpa("InPlaceOrRecreate", "")
	for i := range replicas {
		s.pod(i, "")
	}
	return s
}

func (s *shop) apply(collection, format string, args ...any) {
	s.t.Helper()
	s.api.Apply(collection, fmt.Sprintf(format, args...))
}

// vpa applies the VPA. extra are further fields of its spec.
func (s *shop) vpa(mode, extra string) {
	s.t.Helper()
	s.apply(vpasPath, `{"apiVersion":"autoscaling.k8s.io/v1","kind":"VerticalPodAutoscaler","metadata":{"namespace":"shop","name":"cart","creationTimestamp":"2026-01-01T00:00:00Z"},
		"spec":{"targetRef":{"apiVersion":"apps/v1","kind":"Deployment","name":"cart"},"updatePolicy":{"updateMode":%q}%s},
		"status":{"recommendation":{"containerRecommendations":[{"containerName":"app","lowerBound":{"cpu":"500m","memory":"1200Mi"},
		"target":{"cpu":"600m","memory":"1276Mi"},"upperBound":{"cpu":"2","memory":"4Gi"}}]}}}`, mode, extra)
}

// pod applies a pod of cart. change is a merge patch.
func (s *shop) pod(i int, change string) {
	s.t.Helper()
	o := map[string]any{}
	text := fmt.Sprintf(`{"apiVersion":"v1","kind":"Pod","metadata":{"namespace":"shop","name":"cart-7d9f-%d","uid":"pod-%d","creationTimestamp":%q,"labels":{"app":"cart"},
		"ownerReferences":[{"apiVersion":"apps/v1","kind":"ReplicaSet","name":"cart-7d9f","uid":"r","controller":true}]},
		"spec":{"nodeName":"n1","containers":[{"name":"app","image":"registry.test/cart:1","resources":{"requests":{"cpu":"400m","memory":"1Gi"},"limits":{"memory":"1Gi"}}}]},
		"status":{"phase":"Running","qosClass":"Burstable","startTime":%q,"conditions":[{"type":"Ready","status":"True","lastTransitionTime":%q}],
		"containerStatuses":[{"name":"app","ready":true,"restartCount":0,"state":{"running":{"startedAt":%q}}}]}}`,
		i, i, ago(48*time.Hour), ago(48*time.Hour), ago(47*time.Hour), ago(47*time.Hour))
	if err := json.Unmarshal([]byte(text), &o); err != nil {
		s.t.Fatal(err)
	}
	if change != "" {
		patch := map[string]any{}
		if err := json.Unmarshal([]byte(change), &patch); err != nil {
			s.t.Fatalf("%v in %s", err, change)
		}
		merge(o, patch)
	}
	merged, err := json.Marshal(o)
	if err != nil {
		s.t.Fatal(err)
	}
	s.api.Apply(podsPath, string(merged))
}

func merge(into, patch map[string]any) {
	for key, value := range patch {
		if fields, ok := value.(map[string]any); ok {
			if below, ok := into[key].(map[string]any); ok {
				merge(below, fields)
				continue
			}
		}
		into[key] = value
	}
}

func ago(d time.Duration) string { return time.Now().Add(-d).UTC().Format(time.RFC3339) }

// explain runs podfit explain and returns its output and exit code.
func (s *shop) explain(args ...string) (stdout, stderr string, code int) {
	s.t.Helper()
	kubeconfig := filepath.Join(s.t.TempDir(), "kubeconfig")
	if err := os.WriteFile(kubeconfig, []byte(`{"apiVersion":"v1","kind":"Config","current-context":"c",
		"contexts":[{"name":"c","context":{"cluster":"c","namespace":"shop"}}],"clusters":[{"name":"c","cluster":{"server":"`+s.url+`"}}]}`), 0o600); err != nil {
		s.t.Fatal(err)
	}
	return call(s.t, append([]string{"podfit", "explain", "--kubeconfig=" + kubeconfig}, args...)...)
}

// text returns the output of a successful explain.
func (s *shop) text(args ...string) string {
	s.t.Helper()
	stdout, stderr, code := s.explain(args...)
	if code != exitOK || stderr != "" {
		s.t.Fatalf("exit code %d, %s", code, stderr)
	}
	return stdout
}

func TestExplain_podsAreTooSmall_nextPassResizesThem(t *testing.T) {
	s := newShop(t, 3)
	got := s.text("deploy/cart")
	for _, want := range []string{
		"shop/Deployment/cart · ×3 · VPA cart · InPlaceOrRecreate",
		"0 of 3 pods have the recommended size.", "app: cpu 400m → 600m, memory 1Gi → 1276Mi.",
		"RESIZE in place in the next pass.", "To stop podfit here:",
	} {
		if !strings.Contains(strings.Join(strings.Fields(got), " "), want) {
			t.Errorf("no %q in\n%s", want, got)
		}
	}
}

func TestExplain_anyObject_onlyGetAndList(t *testing.T) {
	s := newShop(t, 2)
	for _, object := range []string{"deploy/cart", "pod/cart-7d9f-0", "vpa/cart", "node/n1", "rs/cart-7d9f"} {
		s.text(object)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.requests) < 10 {
		t.Errorf("%d requests were seen", len(s.requests))
	}
	for _, r := range s.requests {
		if !strings.HasPrefix(r, "GET ") || strings.Contains(r, "watch=") {
			t.Errorf("request %s", r)
		}
	}
}
