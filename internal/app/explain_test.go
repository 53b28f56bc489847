// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"
	_ "time/tzdata" // a minimal machine has no time zones
	"unicode/utf8"

	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/core/decision"
	"podfit.dev/podfit/internal/core/recommend"
	"podfit.dev/podfit/internal/core/usage"
	"podfit.dev/podfit/internal/edge/kube"
	"podfit.dev/podfit/internal/edge/kube/checkpoint"
	"podfit.dev/podfit/test/kubetest"
)

// A shop is a cluster with one workload for tests of podfit explain.
type shop struct {
	t   *testing.T
	api *kubetest.FakeAPI
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
	for _, n := range []string{"n1", "n2"} {
		s.api.ApplyNode(n, "4", "8Gi")
	}
	s.apply(deployments, `{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"namespace":"shop","name":"cart"}}`)
	s.apply(replicaSets, `{"apiVersion":"apps/v1","kind":"ReplicaSet","metadata":{"namespace":"shop","name":"cart-7d9f","ownerReferences":[
		{"apiVersion":"apps/v1","kind":"Deployment","name":"cart","uid":"d","controller":true}]},"spec":{"replicas":%d}}`, replicas)
	s.vpa("InPlaceOrRecreate", "")
	s.lease(0)
	for i := range replicas {
		s.pod(i, "")
	}
	return s
}

func (s *shop) apply(collection, format string, args ...any) {
	s.t.Helper()
	s.api.Apply(collection, fmt.Sprintf(format, args...))
}

// lease applies the status lease of the admission controller, which was renewed some time ago.
func (s *shop) lease(age time.Duration) {
	s.t.Helper()
	s.apply("/apis/coordination.k8s.io/v1/leases", `{"apiVersion":"coordination.k8s.io/v1","kind":"Lease","metadata":{"namespace":"kube-system","name":"vpa-admission-controller","creationTimestamp":"2026-01-01T00:00:00Z"},
		"spec":{"renewTime":%q}}`, time.Now().Add(-age).UTC().Format("2006-01-02T15:04:05.000000Z"))
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
	return call(s.t, append([]string{"podfit", "explain", "--kubeconfig=" + s.kubeconfig()}, args...)...)
}

// kubeconfig writes a kubeconfig of the cluster.
func (s *shop) kubeconfig() string {
	s.t.Helper()
	return kubetest.Context{Namespace: "shop"}.Kubeconfig(s.t, s.api.URL())
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
		"RESIZE in place in the next pass, by ", "To stop changes of running pods (new pods still get the recommended size):",
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
	requests := s.sent()
	if len(requests) < 10 {
		t.Errorf("%d requests were seen", len(requests))
	}
	for _, r := range requests {
		if !strings.HasPrefix(r, "GET ") || strings.Contains(r, "watch=") {
			t.Errorf("request %s", r)
		}
	}
}

// oom is the status of a pod whose container was OOM-killed three times and waits.
func oom(lived time.Duration) string {
	return fmt.Sprintf(`{"status":{"conditions":[{"type":"Ready","status":"False","lastTransitionTime":%q}],"containerStatuses":[{"name":"app","ready":false,"restartCount":3,
		"state":{"waiting":{"reason":"CrashLoopBackOff"}},"lastState":{"terminated":{"reason":"OOMKilled","exitCode":137,"startedAt":%q,"finishedAt":%q}}}]}}`,
		ago(10*time.Minute), ago(2*time.Minute+lived), ago(2*time.Minute))
}

// resizing is the status of a pod with a resize that is not done. The node runs it with the old requests.
func resizing(condition, reason string) string {
	message := "node has 180Mi free"
	if reason == "" {
		message = ""
	}
	return fmt.Sprintf(`{"spec":{"containers":[{"name":"app","resources":{"requests":{"cpu":"600m","memory":"1276Mi"},"limits":{"memory":"1276Mi"}}}]},
		"status":{"conditions":[{"type":"Ready","status":"True","lastTransitionTime":%q},
		{"type":%q,"status":"True","reason":%q,"message":%q,"lastTransitionTime":%q}],
		"containerStatuses":[{"name":"app","ready":true,"restartCount":0,"resources":{"requests":{"cpu":"400m","memory":"1Gi"},"limits":{"memory":"1Gi"}},
		"state":{"running":{"startedAt":%q}}}]}}`, ago(47*time.Hour), condition, reason, message, ago(2*time.Minute), ago(47*time.Hour))
}

// Each limit that users of vertical autoscaling must know is among the first five lines where it applies, and only there.
func TestExplain_knownLimit_isNamedInTheFirstFiveLines(t *testing.T) {
	usage := func(cpu ...string) func(*shop) {
		return func(s *shop) {
			for i, c := range cpu {
				s.apply("/apis/metrics.k8s.io/v1beta1/pods", `{"metadata":{"namespace":"shop","name":"cart-7d9f-%d"},"timestamp":%q,"window":"30s",
					"containers":[{"name":"app","usage":{"cpu":%q,"memory":"500Mi"}}]}`, i, ago(time.Minute), c)
			}
		}
	}
	tests := map[string]struct {
		replicas int
		change   func(*shop)
		title    string
		code     string
	}{
		"JVM by its command": {3, func(s *shop) {
			s.pod(0, `{"spec":{"containers":[{"name":"app","image":"x","command":["/opt/java/bin/java","-jar","/app.jar"],"resources":{"requests":{"cpu":"400m","memory":"1Gi"}}}]}}`)
		}, "JVM", "JVM"},
		"JVM by a variable": {3, func(s *shop) {
			s.pod(0, `{"spec":{"containers":[{"name":"app","image":"x","env":[{"name":"JAVA_TOOL_OPTIONS","value":"-Dsecret=1"}],"resources":{"requests":{"cpu":"400m","memory":"1Gi"}}}]}}`)
		}, "JVM", "JVM"},
		"HPA on the same metric": {3, func(s *shop) {
			s.apply(hpasPath, `{"metadata":{"namespace":"shop","name":"cart"},"spec":{"scaleTargetRef":{"apiVersion":"apps/v1","kind":"Deployment","name":"cart"},"maxReplicas":9,
				"metrics":[{"type":"Resource","resource":{"name":"cpu","target":{"type":"Utilization","averageUtilization":70}}}]}}`)
		}, "HPA scales by CPU", "HPA"},
		"more than any node": {3, func(s *shop) {
			for _, n := range []string{"n1", "n2"} {
				s.apply(nodesPath, `{"metadata":{"name":%q},"status":{"allocatable":{"cpu":"500m","memory":"1Gi","pods":"9"},"conditions":[{"type":"Ready","status":"True"}]}}`, n)
			}
		}, "larger than any node", "AboveNode"},
		"more than the quota": {3, func(s *shop) {
			s.apply(quotasPath, `{"metadata":{"namespace":"shop","name":"compute"},"spec":{"hard":{"requests.memory":"3Gi"}},"status":{"hard":{"requests.memory":"3Gi"},"used":{"requests.memory":"3Gi"}}}`)
		}, "above the quota", "AboveQuota"},
		"single replica": {1, func(*shop) {}, "single replica, minimum is 2", "SingleReplica"},
		"small CPU limit": {3, func(s *shop) {
			s.pod(0, `{"spec":{"containers":[{"name":"app","resources":{"requests":{"cpu":"100m","memory":"1Gi"},"limits":{"cpu":"100m","memory":"1Gi"}}}]}}`)
		}, "small CPU limit 100m", "SmallCPULimit"},
		"OOM and PDB deadlock": {2, func(s *shop) {
			s.pod(0, oom(time.Hour))
			s.pod(1, oom(time.Hour))
			s.apply(budgetsPath, `{"metadata":{"namespace":"shop","name":"cart-pdb","generation":1},"spec":{"minAvailable":1,"selector":{"matchLabels":{"app":"cart"}}},
				"status":{"currentHealthy":0,"desiredHealthy":1,"disruptionsAllowed":0,"expectedPods":2,"observedGeneration":1}}`)
		}, "OOM and PDB deadlock", "OOMAndPDB"},
		"leader and follower": {3, usage("1900m", "40m", "50m"), "replicas differ", "ReplicasDiffer"},
		"runs under a minute": {3, func(s *shop) {
			for i := range 3 {
				s.pod(i, strings.ReplaceAll(strings.ReplaceAll(oom(20*time.Second), "OOMKilled", "Completed"), "137", "0"))
			}
		}, "runs under a minute", "ShortRuns"},
		"Deferred":      {3, func(s *shop) { s.pod(0, resizing("PodResizePending", "Deferred")) }, "resize Deferred since", "ResizePending"},
		"Infeasible":    {3, func(s *shop) { s.pod(0, resizing("PodResizePending", "Infeasible")) }, "resize Infeasible since", "ResizePending"},
		"InProgress":    {3, func(s *shop) { s.pod(0, resizing("PodResizeInProgress", "")) }, "resize InProgress since", "ResizePending"},
		"no room":       {3, func(s *shop) { s.pod(0, resizing("PodResizePending", "Deferred")) }, "no room on node n1", "NodeFull"},
		"nothing of it": {3, usage("300m", "310m", "290m"), "", ""},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			s := newShop(t, tt.replicas)
			tt.change(s)
			got := s.text("deploy/cart")
			first := strings.Join(strings.Split(got, "\n")[:5], "\n")
			var e struct {
				Situations []struct{ Code, Title, Text string }
			}
			if err := json.Unmarshal([]byte(s.text("deploy/cart", "-o", "json")), &e); err != nil {
				t.Fatal(err)
			}
			var codes []string
			for _, found := range e.Situations {
				codes = append(codes, found.Code)
			}
			if tt.code == "" {
				if len(codes) > 0 || strings.Contains(first, "LIMITS") {
					t.Fatalf("limits %v in\n%s", codes, got)
				}
				return
			}
			if !strings.Contains(strings.Join(strings.Fields(first), " "), tt.title) || !strings.Contains(strings.Join(codes, " "), tt.code) {
				t.Fatalf("limits %v, want %s and %q in the first lines of\n%s", codes, tt.code, tt.title, got)
			}
			if strings.Contains(got, "-Dsecret") {
				t.Errorf("a value of a variable is shown:\n%s", got)
			}
		})
	}
}

// A user who may not read everything gets an explanation of the rest, and the name of each part that is missing.
func TestExplain_partsCannotBeRead_areNamedAndTheRestIsExplained(t *testing.T) {
	const denied = `{"kind":"Status","apiVersion":"v1","status":"Failure","code":403,"reason":"Forbidden","message":"forbidden"}`
	const absent = `{"kind":"Status","apiVersion":"v1","status":"Failure","code":404,"reason":"NotFound","message":"not found"}`
	tests := map[string]struct {
		path string
		code int
		body string
		want []string
	}{
		"nodes":          {nodesPath, 403, denied, []string{"Cannot read nodes (you have no right to list them)", "RESIZE in place"}},
		"quotas":         {quotasPath, 403, denied, []string{"Cannot read resourcequotas (you have no right", "RESIZE in place"}},
		"HPAs":           {hpasPath, 403, denied, []string{"Cannot read horizontalpodautoscalers", "RESIZE in place"}},
		"update states":  {statesPath, 403, denied, []string{"The records of the updater (UpdateState) were not read", "RESIZE in place"}},
		"no CRD of them": {statesPath, 404, absent, []string{"The records of the updater (UpdateState) were not read", "RESIZE in place"}},
		"events":         {"/api/v1/namespaces/shop/events", 403, denied, []string{"Events were not read", "RESIZE in place"}},
		"metrics":        {"/apis/metrics.k8s.io/v1beta1/namespaces/shop/pods", 404, absent, []string{"has no Metrics API", "RESIZE in place"}},
		"usage":          {metricsPath, 403, denied, []string{"The current usage was not read", "RESIZE in place"}},
		"profiles":       {"/apis/podfit.dev/v1alpha1/sizingprofiles", 403, denied, []string{"SizingProfiles were not read (you have no right to do this): only", "RESIZE in place"}},
		"VPAs":           {vpasPath, 403, denied, []string{"VPA not known", "Cannot read verticalpodautoscalers", "It is not known whether a VPA governs these pods", "podfit recommend deploy/cart -n shop"}},
		"no VPA kind":    {vpasPath, 404, absent, []string{"has no kind VerticalPodAutoscaler", "podfit recommend deploy/cart -n shop"}},
		"other pods":     {podsPath, 403, denied, []string{"only namespace shop was read", "RESIZE in place"}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			s := newShop(t, 3)
			s.api.Reply("GET "+tt.path, tt.code, tt.body)
			got := strings.Join(strings.Fields(s.text("deploy/cart", "-o", "wide")), " ")
			for _, want := range tt.want {
				if !strings.Contains(got, want) {
					t.Errorf("no %q in\n%s", want, got)
				}
			}
		})
	}
}

// A user with the role view in one namespace gets a note of one line, and all parts in JSON.
func TestExplain_viewerOfOneNamespace_noteOfOneLineAndAllPartsInJSON(t *testing.T) {
	const denied = `{"kind":"Status","apiVersion":"v1","status":"Failure","code":403,"reason":"Forbidden","message":"forbidden"}`
	s := newShop(t, 3)
	for _, path := range []string{podsPath, nodesPath, deployments, "/api/v1/namespaces", "/apis/podfit.dev/v1alpha1/sizingprofiles",
		"/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/vpa-admission-controller"} {
		s.api.Reply("GET "+path, 403, denied)
	}
	text := s.text("deploy/cart")
	_, note, _ := strings.Cut(text, "\nNOTE")
	if strings.Count(note, "\n") != 2 || !strings.Contains(note, " Not known: nodes ") || !strings.Contains(note, " more (-o wide).\n") || !strings.Contains(text, "RESIZE in place") {
		t.Errorf("NOTE is not one line with the parts, or there is no next pass:\n%s", text)
	}
	var all struct{ Missing []string }
	if err := json.Unmarshal([]byte(s.text("deploy/cart", "-o", "json")), &all); err != nil {
		t.Fatal(err)
	}
	missing := strings.Join(all.Missing, "\n")
	for _, want := range []string{
		"only namespace shop was read", "Cannot read nodes (you have no right to list them)", "Cannot read namespaces (you have no right", "SizingProfiles were not read",
		"The flags of the running updater are not known", "The flags of the running recommender are not known", "The status lease of the admission controller was not read",
	} {
		if !strings.Contains(missing, want) {
			t.Errorf("JSON has no %q in\n%s", want, missing)
		}
	}
}

// A user with rights in another namespace only, such as one with the role view, is told how to select it.
func TestExplain_noRightToReadPods_errorNamesTheFlagForANamespace(t *testing.T) {
	s := newShop(t, 1)
	for _, path := range []string{podsPath, "/api/v1/namespaces/shop/pods"} {
		s.api.Reply("GET "+path, 403, `{"kind":"Status","apiVersion":"v1","status":"Failure","code":403,"reason":"Forbidden","message":"forbidden"}`)
	}
	for _, args := range [][]string{{"deploy/cart"}, nil} {
		if _, stderr, code := s.explain(args...); code != exitError || !strings.Contains(stderr, "select a namespace that you may read with -n NAMESPACE") {
			t.Errorf("explain %v: exit code %d: %s", args, code, stderr)
		}
	}
}

// The first fact about a frozen workload is the freeze, so that the user sees that it is in effect.
func TestExplain_frozenNamespace_namesTheSwitch(t *testing.T) {
	s := newShop(t, 2)
	s.apply("/api/v1/namespaces", `{"apiVersion":"v1","kind":"Namespace","metadata":{"name":"shop","annotations":{"podfit.dev/freeze":"true"}}}`)
	got := strings.Join(strings.Fields(s.text("deploy/cart")), " ")
	if want := "Changes of running pods are frozen by the annotation podfit.dev/freeze of namespace shop."; !strings.Contains(got, want) {
		t.Errorf("no %q in\n%s", want, got)
	}
}

// The annotations of a VPA and of its namespace are gates that the explanation names.
func TestExplain_settings_areGates(t *testing.T) {
	const within = `{"spec":{"containers":[{"name":"app","resources":{"requests":{"cpu":"510m","memory":"1250Mi"}}}]}}`
	for annotation, tt := range map[string]struct{ value, pod, want string }{
		"podfit.dev/max-step":           {"memory=100Mi", `{"spec":{"containers":[{"name":"app","resources":{"requests":{"cpu":"400m","memory":"200Mi"}}}]}}`, "podfit.dev/max-step 100Mi lowers it from "},
		"podfit.dev/memory-per-cpu":     {"8Gi-", "", "raises it from "},
		"podfit.dev/eviction-tolerance": {"0", "", "1 of 2 pods change now, changed shortly before, or have no replacement yet (annotation podfit.dev/eviction-tolerance)"},
		"podfit.dev/min-change":         {"500%", within, "and annotation podfit.dev/min-change requires 500%"},
		"podfit.dev/initial-delay":      {"48h", within, "annotation podfit.dev/initial-delay allows no change before"},
	} {
		for _, holder := range []string{"VPA", "namespace"} {
			t.Run(annotation+" of the "+holder, func(t *testing.T) {
				s := newShop(t, 2)
				of := map[string]string{"VPA": "{}", "namespace": "{}"}
				of[holder] = fmt.Sprintf(`{%q:%q}`, annotation, tt.value)
				s.apply("/api/v1/namespaces", `{"apiVersion":"v1","kind":"Namespace","metadata":{"name":"shop","annotations":%s}}`, of["namespace"])
				s.store()
				s.vpa("Recreate", `,"recommenders":[{"name":"balanced"}]`)
				vpa := s.api.Object(vpasPath, "shop/cart")
				patch := map[string]any{}
				if err := json.Unmarshal([]byte(fmt.Sprintf(`{"metadata":{"annotations":%s},"status":{"conditions":[
					{"type":"RecommendationProvided","status":"True","lastTransitionTime":%q}]}}`, of["VPA"], ago(24*time.Hour))), &patch); err != nil {
					t.Fatal(err)
				}
				merge(vpa, patch)
				merged, err := json.Marshal(vpa)
				if err != nil {
					t.Fatal(err)
				}
				s.apply(vpasPath, "%s", merged)
				for i := range 2 {
					s.pod(i, tt.pod)
				}
				if got := strings.Join(strings.Fields(s.text("deploy/cart")), " "); !strings.Contains(got, tt.want) {
					t.Errorf("no %q in\n%s", tt.want, got)
				}
			})
		}
	}
}

func TestExplain_noVPA_pointsToRecommend(t *testing.T) {
	s := newShop(t, 2)
	s.api.Delete(vpasPath, "shop/cart")
	got := s.text("deploy/cart")
	for _, want := range []string{"no VPA", "No VPA governs these pods.", "podfit recommend deploy/cart -n shop"} {
		if !strings.Contains(got, want) {
			t.Errorf("no %q in\n%s", want, got)
		}
	}
}

func TestExplain_wrongCall_namesTheRemedy(t *testing.T) {
	s := newShop(t, 2)
	for line, want := range map[string]struct {
		code int
		text string
	}{
		"-o html":                    {exitUsage, "--output=html need an object as KIND/NAME"},
		"--at=-1h":                   {exitUsage, "need an object as KIND/NAME"},
		"cart":                       {exitUsage, "give one object as KIND/NAME"},
		"deploy/cart sts/x":          {exitUsage, "give one object as KIND/NAME"},
		"deploy/cart -o yaml":        {exitUsage, "--output must be text, wide, json or html"},
		"deploy/cart -c ap":          {exitUsage, `has no container "ap"; its containers are app`},
		"deploi/cart":                {exitUsage, "did you mean deploy/cart?"},
		"deploy/card":                {exitError, "did you mean cart?"},
		"deploy/cart -n other":       {exitError, "found in shop: podfit explain deploy/cart -n shop"},
		"pod/cart-7d9f-9":            {exitError, "did you mean cart-7d9f-"},
		"node/n9":                    {exitError, "did you mean n"},
		"vpa/car":                    {exitError, "did you mean cart?"},
		"deploy/cart --min-reps=1":   {exitUsage, "unknown flag: --min-reps (did you mean --min-replicas?)"},
		"deploy/cart --at=yesterday": {exitUsage, "--at must be a time such as"},
		"deploy/cart --at=-48h":      {exitError, "nothing is recorded about shop/Deployment/cart"},
		"deploy/cart --hpa=perhaps":  {exitUsage, "--hpa must be leave or ignore"},
	} {
		_, stderr, code := s.explain(strings.Fields(line)...)
		if code != want.code || !strings.Contains(stderr, want.text) {
			t.Errorf("podfit explain %s: exit code %d and %q, want %d and %q", line, code, stderr, want.code, want.text)
		}
	}
}

// The flags of the updater change what happens next.
func TestExplain_updaterHasOtherFlags_theyCountAndAreNotAssumed(t *testing.T) {
	s := newShop(t, 1)
	assumed, given := s.text("deploy/cart", "-o", "wide"), s.text("deploy/cart", "-o", "wide", "--min-replicas=1")
	if !strings.Contains(strings.Join(strings.Fields(assumed), " "), "WAITS. "+decision.Reason{Code: decision.TooFewReplicas, Have: 1, Want: 2}.String()) || !strings.Contains(assumed, "--min-replicas=2") {
		t.Errorf("with the default minimum:\n%s", assumed)
	}
	if !strings.Contains(given, "RESIZE in place") || strings.Contains(given, "--min-replicas") {
		t.Errorf("with --min-replicas=1:\n%s", given)
	}
}

// applyJob applies a Deployment that runs a part of podfit, or of the upstream VPA.
func (s *shop) applyJob(name, image, words string) {
	s.t.Helper()
	s.applyJobIn("kube-system", name, image, words)
}

func (s *shop) applyJobIn(namespace, name, image, words string) {
	s.t.Helper()
	s.apply(strings.Replace(deployments, "kube-system", namespace, 1), `{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"namespace":%q,"name":%q,"labels":{"app.kubernetes.io/name":"vertical-pod-autoscaler"}},
		"spec":{"replicas":1,"template":{"spec":{"containers":[{"name":"x","image":%q,"args":%s}]}}}}`, namespace, name, image, words)
}

// Any tenant may create a Deployment that looks like the updater. The one that counts is in the namespace of the lease.
func TestExplain_tenantHasADeploymentThatLooksLikeTheUpdater_flagsAreThoseOfTheUpdater(t *testing.T) {
	s := newShop(t, 1)
	s.applyJob("vpa-updater", "ghcr.io/podfit/podfit:1", `["updater"]`)
	s.applyJobIn("shop", "vpa-updater", "ghcr.io/podfit/podfit:1", `["updater","--min-replicas=1"]`)
	clients, err := kube.ClientsFor(s.api.Config())
	if err != nil {
		t.Fatal(err)
	}
	page, err := explainerOfPage(clients, nil, slog.New(slog.DiscardHandler)).Explain(t.Context(), cluster.Workload{Group: "apps", Kind: "Deployment", Namespace: "shop", Name: "cart"}, true)
	if err != nil {
		t.Fatal(err)
	}
	for where, text := range map[string]string{"podfit explain": s.text("deploy/cart", "-o", "wide"), "the page": page.Text} {
		got := strings.Join(strings.Fields(text), " ")
		if !strings.Contains(got, "The flags of the updater are those of Deployment kube-system/vpa-updater") || !strings.Contains(got, "WAITS") || strings.Contains(got, "shop/vpa-updater") {
			t.Errorf("%s: the flags of the tenant's Deployment count, or none: %s", where, got)
		}
	}
}

// The flags of the running jobs are those of their Deployments. Flags of the command line take precedence.
func TestExplain_flagsOfDeployments_areUsedAndNamed(t *testing.T) {
	s := newShop(t, 1)
	s.applyJob("vpa-updater", "ghcr.io/podfit/podfit:1", `["updater","--leader-elect","--min_replicas","1","--v=4"]`)
	s.applyJob("vpa-recommender", "ghcr.io/podfit/podfit:1", `["recommender","--recommendation-margin-fraction=0.5"]`)
	words := func(args ...string) string {
		return strings.Join(strings.Fields(s.text(append([]string{"deploy/cart", "-o", "wide"}, args...)...)), " ")
	}
	got := words()
	for _, want := range []string{
		"RESIZE in place", "The flags of the updater are those of Deployment kube-system/vpa-updater, with the behaviour of --compatibility=podfit: --min-replicas=1.",
		"The flags of the recommender are those of Deployment kube-system/vpa-recommender: --recommendation-margin-fraction=0.5.",
	} {
		if !strings.Contains(got, want) || strings.Contains(got, "Assumed") {
			t.Errorf("no %q in %s", want, got)
		}
	}
	if got := words("--min-replicas=2"); !strings.Contains(got, "WAITS") || !strings.Contains(got, "--compatibility=podfit: all that matter here have their defaults.") {
		t.Errorf("the command line does not take precedence: %s", got)
	}
	s.applyJob("vpa-updater", "ghcr.io/podfit/podfit:1", `["updater","--compatibility=upstream","--hpa=leave"]`)
	if got := words(); !strings.Contains(got, "vpa-updater, with the behaviour of --compatibility=upstream: --compatibility=upstream --hpa=leave.") {
		t.Errorf("the switch is not named: %s", got)
	}
	s.applyJob("vpa-updater", "registry.k8s.io/autoscaling/vpa-updater:1.6.0", `["--min-replicas=1"]`)
	if got := words(); !strings.Contains(got, "Deployment kube-system/vpa-updater runs the updater of the upstream VPA") || !strings.Contains(got, "RESIZE in place") {
		t.Errorf("another program is not named: %s", got)
	}
}

// --compatibility=upstream of the running updater sets its flags here, too: what the updater leaves to an HPA by default changes then.
func TestExplain_updaterWithCompatibilityUpstream_plannedSizesAreThose(t *testing.T) {
	s := newShop(t, 3)
	s.apply(hpasPath, `{"metadata":{"namespace":"shop","name":"cart"},"spec":{"scaleTargetRef":{"apiVersion":"apps/v1","kind":"Deployment","name":"cart"},"maxReplicas":9,
		"metrics":[{"type":"Resource","resource":{"name":"cpu","target":{"type":"Utilization","averageUtilization":70}}}]}}`)
	for flags, changes := range map[string]bool{
		`["updater"]`: false, `["updater","--compatibility=upstream"]`: true, `["updater","--compatibility=upstream","--hpa=leave"]`: false,
	} {
		s.applyJob("vpa-updater", "ghcr.io/podfit/podfit:1", flags)
		var e struct{ Now []string }
		if err := json.Unmarshal([]byte(s.text("deploy/cart", "-o", "json")), &e); err != nil {
			t.Fatal(err)
		}
		if now := strings.Join(e.Now, "\n"); strings.Contains(now, "cpu 400m → 600m") != changes || !strings.Contains(now, "memory 1Gi → 1276Mi") {
			t.Errorf("%s: NOW is %s, want a change of CPU: %v", flags, now, changes)
		}
	}
}

// --compatibility=upstream of the running updater changes what NEXT says: it evicts a pod whose resize is infeasible although no node has room.
func TestExplain_updaterWithCompatibilityUpstream_nextIsAnotherAction(t *testing.T) {
	s := newShop(t, 3)
	for _, n := range []string{"n1", "n2"} {
		s.apply(nodesPath, `{"metadata":{"name":%q},"status":{"allocatable":{"cpu":"500m","memory":"1Gi","pods":"9"},"conditions":[{"type":"Ready","status":"True"}]}}`, n)
	}
	for i := range 3 {
		s.pod(i, resizing("PodResizePending", "Infeasible"))
	}
	waits := decision.Reason{Code: decision.NoNodeFits, Text: cluster.Amounts(600, 1276<<20).String()}
	for flags, want := range map[string]string{`["updater"]`: "cart-7d9f-2: WAITS. " + waits.String(), `["updater","--compatibility=upstream"]`: "cart-7d9f-0: EVICT in the next pass"} {
		s.applyJob("vpa-updater", "ghcr.io/podfit/podfit:1", flags)
		if got := strings.Join(strings.Fields(s.text("deploy/cart", "-o", "wide")), " "); !strings.Contains(got, want) || strings.Contains(got, "Assumed for the updater") {
			t.Errorf("%s: no %q, or flags are assumed that are known: %s", flags, want, got)
		}
	}
}

// Flags that cannot be read are named with the values that were assumed.
func TestExplain_deploymentsCannotBeRead_flagsAreNamedAsAssumed(t *testing.T) {
	s := newShop(t, 3)
	s.store()
	got := strings.Join(strings.Fields(s.text("deploy/cart", "-o", "wide")), " ")
	for _, want := range []string{
		"No Deployment of podfit's updater was found, so its flags are not known, and neither is whether it runs.", "Assumed for the updater: --min-replicas=2",
		"Assumed for the recommender: --recommendation-margin-fraction=0.15 --target-cpu-percentile=0.9",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("no %q in %s", want, got)
		}
	}
	s.applyJob("vpa-updater", "ghcr.io/podfit/podfit:1", `["updater"]`)
	s.applyJob("vpa-recommender", "ghcr.io/podfit/podfit:1", `["recommender"]`)
	s.applyJob("podfit", "ghcr.io/podfit/podfit:1", `["run"]`)
	if got := strings.Join(strings.Fields(s.text("deploy/cart", "-o", "wide")), " "); !strings.Contains(got, "2 Deployments run the updater (kube-system/podfit, kube-system/vpa-updater)") {
		t.Errorf("two programs are not named: %s", got)
	}
}

// store writes two weeks of usage history of the profile balanced: usually 300Mi, with peaks.
func (s *shop) store() {
	s.t.Helper()
	s.storeFor(14*24*time.Hour, 5*time.Minute, 1000)
}

// storeFor writes usage history that ends with the last full hour, with peaks of so many MiB.
func (s *shop) storeFor(span, step time.Duration, peak float64) {
	s.t.Helper()
	profile, _ := recommend.Builtin("balanced")
	cart := cluster.Workload{Group: "apps", Kind: "Deployment", Namespace: "shop", Name: "cart"}
	store := usage.NewStore(usage.DefaultConfig())
	store.Extend(cart, profile.Extend)
	store.Track(&cluster.Pod{Key: cluster.Key{Namespace: "shop", Name: "old"}, UID: "old", Top: cart, Phase: cluster.Running,
		Containers: []cluster.Container{{Name: "app", Requests: cluster.Amounts(400, 1<<30)}}})
	now := time.Now().Truncate(time.Hour)
	for at := now.Add(-span); at.Before(now); at = at.Add(step) {
		memory := 300.0
		if at.Hour()%4 == 3 && at.Day()%4 == 0 {
			memory = peak
		}
		store.Tick(at)
		store.Observe(usage.Sample{Pod: cluster.Key{Namespace: "shop", Name: "old"}, Container: "app", At: at, CPU: 0.2, Memory: memory * (1 << 20), Has: cluster.Both})
	}
	clients, err := kube.ClientsFor(s.api.Config())
	if err != nil {
		s.t.Fatal(err)
	}
	saved, ok := store.Checkpoint(cart, "app", now)
	checkpoints := checkpoint.NewCheckpoints(clients, checkpoint.StorageOptions{})
	if _, err := checkpoints.Load(s.t.Context()); err != nil || !ok {
		s.t.Fatalf("there is a checkpoint: %t, error %v", ok, err)
	}
	if err := checkpoints.Write(s.t.Context(), checkpoint.Key{Autoscaler: cluster.Key{Namespace: "shop", Name: "cart"}, Container: "app"}, saved); err != nil {
		s.t.Fatal(err)
	}
	histories := checkpoint.NewHistories(clients, checkpoint.StorageOptions{})
	if _, err := histories.Load(s.t.Context()); err != nil {
		s.t.Fatal(err)
	}
	if wrote, err := histories.Write(s.t.Context(), cart, store.Histories(cart, now)); err != nil || !wrote {
		s.t.Fatalf("wrote %t: %v", wrote, err)
	}
	s.vpa("InPlaceOrRecreate", `,"recommenders":[{"name":"balanced"}]`)
}

func TestExplain_historyIsStored_showsWhyAndWhatIf(t *testing.T) {
	s := newShop(t, 3)
	s.store()
	got := s.text("deploy/cart")
	for _, want := range []string{"profile balanced", "of memory (was 1Gi)", "WHAT IF", "profile cost", "without "} {
		if !strings.Contains(got, want) {
			t.Errorf("no %q in\n%s", want, got)
		}
	}
	for line := range strings.SplitSeq(got, "\n") {
		if n := utf8.RuneCountInString(line); n > 80 {
			t.Errorf("%d columns: %s", n, line)
		}
	}
	asked := s.text("deploy/cart", "--if", "maxAllowed.memory=700Mi")
	if !strings.Contains(asked, "maxAllowed.memory=700Mi 700Mi") || strings.Contains(asked, "profile cost") {
		t.Errorf("with a condition:\n%s", asked)
	}
	if _, stderr, code := s.explain("deploy/cart", "--if", "colour=red"); code != exitUsage || !strings.Contains(stderr, "unknown key") {
		t.Errorf("an unknown condition: exit code %d, %s", code, stderr)
	}
	if testing.Verbose() {
		t.Log(got)
	}
}

// What the running updater recorded is shown, and a difference to the plan of this command is named.
func TestExplain_updaterRecordedWaitingPods_areShownAndCompared(t *testing.T) {
	for minimum, differs := range map[string]bool{"2": true, "4": false} {
		s := newShop(t, 3)
		s.apply(statesPath, `{"apiVersion":"podfit.dev/v1alpha1","kind":"UpdateState","metadata":{"namespace":"shop","name":"apps-deployment-cart"},
			"spec":{"target":{"group":"apps","kind":"Deployment","name":"cart"}},"status":{"waitingPods":[{"reason":"TooFewReplicas","pods":3,"firstPod":"cart-7d9f-0"}]}}`)
		got := strings.Join(strings.Fields(s.text("deploy/cart", "--min-replicas="+minimum)), " ")
		if !strings.Contains(got, "The running updater recorded that 3 pods wait for TooFewReplicas, the first is cart-7d9f-0.") {
			t.Errorf("--min-replicas=%s: no record in\n%s", minimum, got)
		}
		if strings.Contains(got, "plans something else") != differs {
			t.Errorf("--min-replicas=%s: the difference is named, want %t:\n%s", minimum, differs, got)
		}
	}
}

func TestExplain_atATime_recordsOfThePastOrThePlanOfTheFuture(t *testing.T) {
	s := newShop(t, 3)
	s.apply("/api/v1/events", `{"apiVersion":"v1","kind":"Event","metadata":{"namespace":"shop","name":"e1"},"reason":"UpdateHeld","message":"Pod cart-7d9f-0 is not updated.",
		"involvedObject":{"kind":"VerticalPodAutoscaler","namespace":"shop","name":"cart"},"lastTimestamp":%q}`, ago(30*time.Minute))
	s.apply(statesPath, `{"apiVersion":"podfit.dev/v1alpha1","kind":"UpdateState","metadata":{"namespace":"shop","name":"apps-deployment-cart"},
		"spec":{"target":{"group":"apps","kind":"Deployment","name":"cart"}},"status":{"pods":[{"name":"cart-7d9f-1","uid":"pod-1","action":"Evict","outcome":"DisruptionBudget",
		"message":"cart-pdb allows none","attempts":3,"lastTime":%q}]}}`, time.Now().Add(-20*time.Minute).UTC().Format("2006-01-02T15:04:05.000000Z"))
	if got := s.text("deploy/cart"); !strings.Contains(got, "cart UpdateHeld: Pod cart-7d9f-0 is not updated.") {
		t.Errorf("the event is not part of NOW:\n%s", got)
	}
	past := s.text("deploy/cart", "--at=-25m")
	if !strings.Contains(past, "UpdateHeld") || strings.Contains(past, "cart-7d9f-1 evict") || strings.Contains(past, "NEXT") {
		t.Errorf("25 minutes ago:\n%s", past)
	}
	if later := strings.Join(strings.Fields(s.text("deploy/cart", "--at=-10m")), " "); !strings.Contains(later, "cart-7d9f-1 evict: refused: cart-pdb allows none") {
		t.Errorf("10 minutes ago:\n%s", later)
	}
	if future := strings.Join(strings.Fields(s.text("deploy/cart", "--at=+2h")), " "); !strings.Contains(future, "as if nothing changed until then") || !strings.Contains(future, "RESIZE") {
		t.Errorf("in two hours:\n%s", future)
	}
}

func TestExplain_node_showsItsRoomAndThePodsThatWait(t *testing.T) {
	s := newShop(t, 3)
	s.pod(0, resizing("PodResizePending", "Deferred"))
	got := strings.Join(strings.Fields(s.text("node/n1")), " ")
	for _, want := range []string{"n1 · allocatable 4 CPU, 8Gi", "LIMITS resize Deferred since", "no room on node n1", "Requested:", "Free:", "shop/cart-7d9f-0: WAITS"} {
		if !strings.Contains(got, want) {
			t.Errorf("no %q in\n%s", want, got)
		}
	}
}

func TestExplain_podAndVPA_areExplainedAsTheirWorkload(t *testing.T) {
	s := newShop(t, 3)
	pod := s.text("pod/cart-7d9f-1")
	if !strings.Contains(pod, "shop/Pod/cart-7d9f-1 · of Deployment cart · VPA cart") || strings.Contains(pod, "cart-7d9f-0") {
		t.Errorf("pod:\n%s", pod)
	}
	if vpa := s.text("vpa/cart"); !strings.Contains(vpa, "shop/VPA/cart · ×3") || !strings.Contains(vpa, "cart-7d9f-2") {
		t.Errorf("VPA:\n%s", vpa)
	}
}

func TestExplain_prometheusHasHeapMetrics_saysWhichHeapWouldSuffice(t *testing.T) {
	s := newShop(t, 3)
	for i := range 3 {
		s.pod(i, `{"spec":{"containers":[{"name":"app","image":"eclipse-temurin:21","resources":{"requests":{"cpu":"400m","memory":"1Gi"},"limits":{"memory":"1Gi"}}}]}}`)
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		var parts []string
		for name, v := range map[string]int{"hours": 160, "collected": 100 << 20, "collections": 3, "lowest": 140 << 20, "ceiling": 768 << 20, "beside": 150 << 20, "gc": 0} {
			parts = append(parts, fmt.Sprintf(`{"metric":{"podfit_part":%q},"value":[1,"%d"]}`, name, v))
		}
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprintf(w, `{"status":"success","data":{"resultType":"vector","result":[%s]}}`, strings.Join(parts, ","))
	}))
	defer server.Close()
	for option, want := range map[string]string{
		"--prometheus=" + server.URL: "HEAP The heap of app has 100Mi after a collection, and a ceiling of 768Mi.",
		"-o=text":                    "HEAP The need of the JVM in app is not known: no Prometheus was read.",
	} {
		got := strings.Join(strings.Fields(s.text("deploy/cart", option)), " ")
		if advised := strings.Contains(got, " -XX:MaxRAMPercentage=59.3 "); !strings.Contains(got, want) || advised != strings.Contains(option, "prometheus") {
			t.Errorf("%s: no %q, advised: %t, in\n%s", option, want, advised, got)
		}
	}
}

func TestExplain_helpAll_hasExamplesAndGroupsOfFlags(t *testing.T) {
	stdout, _, code := call(t, "podfit", "explain", "--help-all")
	for _, want := range []string{"podfit explain deploy/cart -n shop", "Conditions for --if:", "Safety: how much is changed at a time:", "--min-replicas"} {
		if code != exitOK || !strings.Contains(stdout, want) {
			t.Errorf("exit code %d, no %q in\n%s", code, want, stdout)
		}
	}
}

func TestExplain_completion_offersKindsAndNames(t *testing.T) {
	s := newShop(t, 2)
	kubeconfig := s.kubeconfig()
	for typed, want := range map[string]string{"d": "deploy/\nds/", "deploy/c": "deploy/cart", "pod/cart-7d9f-": "pod/cart-7d9f-0\npod/cart-7d9f-1", "node/": "node/n1\nnode/n2", "vpa/": "vpa/cart"} {
		stdout, _, _ := call(t, "podfit", "__complete", "explain", "--kubeconfig="+kubeconfig, typed)
		if !strings.HasPrefix(stdout, want+"\n:") {
			t.Errorf("%s: %q, want %q", typed, stdout, want)
		}
	}
}

// Mode Off leaves pods alone. The plan under a mode that changes them is by the same code.
func TestExplain_modeOff_saysWhatWouldHappenIfSwitchedOn(t *testing.T) {
	for _, mode := range []string{"Off", "Initial"} {
		s := newShop(t, 3)
		s.vpa(mode, "")
		got := s.text("deploy/cart")
		for _, want := range []string{"no change. " + decision.Reason{Code: decision.ModeOff, Text: mode}.String(), "With update mode InPlaceOrRecreate, cart-7d9f-0: RESIZE in place", "patch vpa cart"} {
			if !strings.Contains(strings.Join(strings.Fields(got), " "), want) {
				t.Errorf("mode %s: no %q in\n%s", mode, want, got)
			}
		}
	}
	if got := newShop(t, 3).text("deploy/cart"); strings.Contains(got, "With update mode") {
		t.Errorf("the mode changes pods:\n%s", got)
	}
}

// The numbers of another program are not those of podfit's profiles, even if a usage history is stored.
func TestExplain_recommenderOfAnotherVendor_isNotExplainedAsOurs(t *testing.T) {
	s := newShop(t, 3)
	s.store()
	s.vpa("InPlaceOrRecreate", `,"recommenders":[{"name":"acme-ai"}]`)
	got := s.text("deploy/cart")
	if !strings.Contains(firstLines(got, 5), "sized by recommender acme-ai") || strings.Contains(got, "WHY ") || strings.Contains(got, "WHAT IF") || strings.Contains(got, "profile acme-ai") {
		t.Errorf("got\n%s", got)
	}
	if !strings.Contains(got, "RESIZE in place") {
		t.Errorf("podfit applies its recommendation:\n%s", got)
	}
}

// Without an admission controller the updater changes no pods: they would get their old size again.
func TestExplain_admissionControllerIsDown_nextIsNoChange(t *testing.T) {
	s := newShop(t, 3)
	s.lease(time.Hour)
	got := s.text("deploy/cart")
	if !strings.Contains(firstLines(got, 5), "updater paused") || strings.Contains(got, ": RESIZE") || !strings.Contains(strings.Join(strings.Fields(got), " "), "WAITS. The updater changes no pods, because the status lease kube-system/vpa-admission-controller of the admission controller is missing or older than 1m0s.") {
		t.Errorf("got\n%s", got)
	}
	if got := s.text("deploy/cart", "--use-admission-controller-status=false"); !strings.Contains(got, "RESIZE in place") {
		t.Errorf("the updater does not look at the lease:\n%s", got)
	}
}

func TestExplain_secondVPA_namesTheOneThatGoverns(t *testing.T) {
	s := newShop(t, 3)
	s.apply(vpasPath, `{"apiVersion":"autoscaling.k8s.io/v1","kind":"VerticalPodAutoscaler","metadata":{"namespace":"shop","name":"cart-2","creationTimestamp":"2026-02-01T00:00:00Z"},
		"spec":{"targetRef":{"apiVersion":"apps/v1","kind":"Deployment","name":"cart"},"updatePolicy":{"updateMode":"Recreate"}}}`)
	for _, object := range []string{"deploy/cart", "pod/cart-7d9f-1", "vpa/cart", "vpa/cart-2"} {
		got := s.text(object)
		words := strings.Join(strings.Fields(got), " ")
		if !strings.Contains(firstLines(got, 5), "2 VPAs for one workload") || !strings.Contains(words, "VPA cart governs the pods. VPA cart-2 has no effect on them, because it is newer.") ||
			!strings.Contains(words, "kubectl -n shop delete vpa cart-2") {
			t.Errorf("%s:\n%s", object, got)
		}
	}
}

const berlin = "Europe/Berlin"

// Times have the zone of the user, and the time from now.
func TestExplain_times_areLocalWithTheTimeFromNow(t *testing.T) {
	if os.Getenv("TZ") != berlin { // the local zone of a process cannot be changed without a data race
		again := exec.Command(os.Args[0], "-test.run=^TestExplain_times_areLocalWithTheTimeFromNow$")
		again.Env = append(os.Environ(), "TZ="+berlin)
		if out, err := again.CombinedOutput(); err != nil {
			t.Fatalf("with the time zone %s: %v\n%s", berlin, err, out)
		}
		return
	}
	zone, _ := time.Now().Zone()
	s := newShop(t, 3)
	deferred := time.Now().Add(-2 * time.Minute)
	for i := range 3 {
		s.pod(i, fmt.Sprintf(`{"status":{"conditions":[{"type":"PodResizePending","status":"True","reason":"Deferred","message":"full","lastTransitionTime":%q}]}}`, deferred.UTC().Format(time.RFC3339)))
	}
	got := s.text("deploy/cart")
	since := deferred.In(time.Local).Format("15:04")
	if !strings.Contains(got, "Deferred since "+since) || !strings.Contains(got, " "+zone+". ") || zone == "UTC" {
		t.Errorf("no local times, such as %s, in\n%s", since, got)
	}
	if got := newShop(t, 3).text("deploy/cart"); !strings.Contains(got, "(in 1m)") {
		t.Errorf("no time from now in\n%s", got)
	}
}

// firstLines returns the first lines of a text.
func firstLines(s string, n int) string {
	lines := strings.SplitAfter(s, "\n")
	return strings.Join(lines[:min(n, len(lines))], "")
}
