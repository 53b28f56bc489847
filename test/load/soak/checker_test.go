// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package soak

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	autoscaling "k8s.io/api/autoscaling/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	vpa "podfit.dev/podfit/api/v1"
	"podfit.dev/podfit/test/e2e/invariant"
	"podfit.dev/podfit/test/load/apiserver"
	"podfit.dev/podfit/test/load/fleet"
)

// A fixture is an API server with a checker, and what an updater that makes mistakes would do.
type fixture struct {
	*testing.T
	checker *Checker
	server  *apiserver.Server
	client  kubernetes.Interface
	custom  dynamic.Interface
	created int
}

const team = "team"

func newFixture(t *testing.T, mode vpa.UpdateMode, recommender string) *fixture {
	t.Helper()
	c := NewChecker(Config{Foreign: "other", UpdaterInterval: time.Second, WritesPerMinute: 50})
	s := apiserver.Start(apiserver.Options{Wrote: c.Wrote, Changed: c.Changed})
	t.Cleanup(s.Stop)
	config := &rest.Config{Host: s.URL(), QPS: -1, BearerToken: "start001", TLSClientConfig: rest.TLSClientConfig{Insecure: true}, UserAgent: "podfit/run v1"}
	f := &fixture{T: t, checker: c, server: s, client: kubernetes.NewForConfigOrDie(config), custom: dynamic.NewForConfigOrDie(config)}
	s.Create("apps/replicasets", &appsv1.ReplicaSet{
		ObjectMeta: metav1.ObjectMeta{Namespace: team, Name: "web-1", OwnerReferences: []metav1.OwnerReference{{Kind: "Deployment", Name: "web", Controller: new(true)}}},
		Spec:       appsv1.ReplicaSetSpec{Replicas: new(int32(4))},
	})
	for range 4 {
		f.pod("100m", time.Now().Add(-time.Hour))
	}
	v := &vpa.VerticalPodAutoscaler{
		ObjectMeta: metav1.ObjectMeta{Namespace: team, Name: "web"},
		Spec: vpa.VerticalPodAutoscalerSpec{
			TargetRef: &autoscaling.CrossVersionObjectReference{Kind: "Deployment", Name: "web"}, UpdatePolicy: &vpa.PodUpdatePolicy{UpdateMode: &mode},
		},
	}
	if recommender != "" {
		v.Spec.Recommenders = []*vpa.VerticalPodAutoscalerRecommenderSelector{{Name: recommender}}
	}
	s.CreateCustom("autoscaling.k8s.io/verticalpodautoscalers", v)
	return f
}

func (f *fixture) name(i int) string { return fmt.Sprintf("web-1-%d", i) }

// pod creates a pod that runs.
func (f *fixture) pod(cpu string, created time.Time) {
	requests := corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(cpu)}
	f.server.Create("/pods", &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: team, Name: f.name(f.created), Labels: map[string]string{"app": "web"}, CreationTimestamp: metav1.NewTime(created.Truncate(time.Second)),
			OwnerReferences: []metav1.OwnerReference{{Kind: "ReplicaSet", Name: "web-1", Controller: new(true)}},
		},
		Spec:   corev1.PodSpec{NodeName: "node", Containers: []corev1.Container{{Name: "app", Resources: corev1.ResourceRequirements{Requests: requests}}}},
		Status: corev1.PodStatus{Phase: corev1.PodRunning, Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}},
	})
	f.created++
}

// recommend writes a recommendation as podfit does.
func (f *fixture) recommend() {
	f.Helper()
	status := `{"status":{"recommendation":{"containerRecommendations":[{"containerName":"app","target":{"cpu":"350m"},"lowerBound":{"cpu":"300m"},"upperBound":{"cpu":"500m"}}]}}}`
	vpas := schema.GroupVersionResource{Group: "autoscaling.k8s.io", Version: "v1", Resource: vpa.ResourceAutoscalers}
	if _, err := f.custom.Resource(vpas).Namespace(team).Patch(f.Context(), "web", types.MergePatchType, []byte(status), metav1.PatchOptions{}, "status"); err != nil {
		f.Fatal(err)
	}
}

// evict evicts a pod, which is replaced by one with a request.
func (f *fixture) evict(i int, replacement string) {
	f.Helper()
	if err := f.client.PolicyV1().Evictions(team).Evict(context.Background(), &policyv1.Eviction{ObjectMeta: metav1.ObjectMeta{Namespace: team, Name: f.name(i)}}); err != nil {
		f.Fatal(err)
	}
	f.pod(replacement, time.Now())
}

func (f *fixture) resize(i int, cpu string) {
	f.Helper()
	patch := fmt.Sprintf(`{"spec":{"containers":[{"name":"app","resources":{"requests":{"cpu":%q}}}]}}`, cpu)
	if _, err := f.client.CoreV1().Pods(team).Patch(f.Context(), f.name(i), types.StrategicMergePatchType, []byte(patch), metav1.PatchOptions{}, "resize"); err != nil {
		f.Fatal(err)
	}
}

// rules returns the rules that are violated.
func (f *fixture) rules() (out []invariant.Rule) {
	f.checker.Judge(time.Now())
	for _, v := range f.checker.Violations() {
		out = append(out, v.Rule)
	}
	slices.Sort(out)
	return slices.Compact(out)
}

func TestChecker_badHistories_areFound(t *testing.T) {
	for name, c := range map[string]struct {
		mode        vpa.UpdateMode
		recommender string
		do          func(*fixture)
		want        []invariant.Rule
	}{
		"an eviction by a recommendation":    {do: func(f *fixture) { f.recommend(); f.evict(0, "350m") }},
		"a resize by a recommendation":       {mode: vpa.UpdateModeInPlaceOrRecreate, do: func(f *fixture) { f.recommend(); f.resize(0, "350m") }},
		"an eviction without recommendation": {do: func(f *fixture) { f.evict(0, "350m") }, want: []invariant.Rule{invariant.Advised}},
		"a resize to another amount": {
			mode: vpa.UpdateModeInPlaceOrRecreate, do: func(f *fixture) { f.recommend(); f.resize(0, "900m") }, want: []invariant.Rule{invariant.Advised},
		},
		"three evictions at once of four pods": {do: func(f *fixture) {
			f.recommend()
			for i := range 3 {
				if err := f.client.PolicyV1().Evictions(team).Evict(f.Context(), &policyv1.Eviction{ObjectMeta: metav1.ObjectMeta{Namespace: team, Name: f.name(i)}}); err != nil {
					f.Fatal(err)
				}
			}
		}, want: []invariant.Rule{invariant.InBudget}},
		"two evictions without effect":          {do: func(f *fixture) { f.recommend(); f.evict(0, "100m"); f.evict(1, "100m") }},
		"three evictions without effect":        {do: func(f *fixture) { f.recommend(); f.evict(0, "100m"); f.evict(1, "100m"); f.evict(2, "100m") }, want: []invariant.Rule{invariant.Effective}},
		"an eviction in mode Off":               {mode: vpa.UpdateModeOff, do: func(f *fixture) { f.recommend(); f.evict(0, "350m") }, want: []invariant.Rule{Mode}},
		"a resize in mode Recreate":             {do: func(f *fixture) { f.recommend(); f.resize(0, "350m") }, want: []invariant.Rule{Mode}},
		"a status of another recommender's VPA": {recommender: "other", do: func(f *fixture) { f.recommend() }, want: []invariant.Rule{Served}},
		"a resource of others": {do: func(f *fixture) {
			if err := f.client.AppsV1().ReplicaSets(team).Delete(f.Context(), "web-1", metav1.DeleteOptions{}); err != nil {
				f.Fatal(err)
			}
		}, want: []invariant.Rule{Served}},
		"many writes": {do: func(f *fixture) { f.checker.Writes(time.Now(), 51) }, want: []invariant.Rule{WriteRate}},
	} {
		t.Run(strings.ReplaceAll(name, " ", "-"), func(t *testing.T) {
			t.Parallel()
			mode := c.mode
			if mode == "" {
				mode = vpa.UpdateModeRecreate
			}
			f := newFixture(t, mode, c.recommender)
			f.checker.Passed(time.Now())
			c.do(f)
			if got := f.rules(); !slices.Equal(got, c.want) {
				t.Errorf("violated rules %v, want %v: %v", got, c.want, f.checker.Violations())
			}
			if again := f.rules(); !slices.Equal(again, c.want) {
				t.Errorf("violated rules of a second judgement %v, want %v", again, c.want)
			}
		})
	}
}

func TestChecker_refusedWrites_areNoActions(t *testing.T) {
	f := newFixture(t, vpa.UpdateModeRecreate, "")
	f.recommend()
	err := f.client.PolicyV1().Evictions(team).Evict(f.Context(), &policyv1.Eviction{
		ObjectMeta: metav1.ObjectMeta{Namespace: team, Name: f.name(0)}, DeleteOptions: &metav1.DeleteOptions{Preconditions: metav1.NewUIDPreconditions("another")},
	})
	if err == nil || f.checker.Count()["eviction"] != 0 {
		t.Errorf("error %v, %d evictions", err, f.checker.Count()["eviction"])
	}
	if got := f.rules(); len(got) > 0 {
		t.Errorf("violated rules %v", got)
	}
}

func TestServer_refusedRequest_isAnsweredAndPassedOn(t *testing.T) {
	var got []apiserver.Exchange
	s := apiserver.Start(apiserver.Options{
		Wrote: func(x apiserver.Exchange) { got = append(got, x) },
		Refuse: func(r apiserver.Request) error {
			if r.Resource == "configmaps" && r.Verb == "delete" {
				return fmt.Errorf("a fault")
			}
			return nil
		},
	})
	t.Cleanup(s.Stop)
	client := kubernetes.NewForConfigOrDie(&rest.Config{Host: s.URL(), BearerToken: "token", TLSClientConfig: rest.TLSClientConfig{Insecure: true}})
	m := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: team, Name: "one"}}
	if _, err := client.CoreV1().ConfigMaps(team).Create(t.Context(), m, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	if err := client.CoreV1().ConfigMaps(team).Delete(t.Context(), "one", metav1.DeleteOptions{}); err == nil {
		t.Error("the deletion is not refused")
	}
	if len(got) != 1 || got[0].Name != "one" || got[0].Token != "token" || got[0].Code != http.StatusCreated || got[0].Stored == nil || !strings.Contains(string(got[0].Body), `"one"`) {
		t.Errorf("got %+v", got)
	}
}

func TestGrown_samples_onlyGrowthIsFound(t *testing.T) {
	days := func(n int, of func(day int, s *Sample)) (out []Sample) {
		for day := 1; day <= n; day++ {
			s := Sample{Day: day, Process: 1, Count: fleet.Count{Workloads: 100, Containers: 120, Profiled: 20, Created: 150}, Remembered: 120, Heap: 100, Resident: 200, Goroutines: 300, Series: 1000, Checkpoints: 120, UpdateStates: 20, Events: 300}
			of(day, &s)
			out = append(out, s)
		}
		return out
	}
	const heap = "live heap (KiB per usage history)"
	for name, c := range map[string]struct {
		samples []Sample
		want    []string
	}{
		"flat":                      {samples: days(30, func(int, *Sample) {})},
		"noise":                     {samples: days(30, func(day int, s *Sample) { s.Heap += float64(day % 9) })},
		"objects grow":              {samples: days(30, func(day int, s *Sample) { s.Checkpoints += day }), want: []string{"checkpoints"}},
		"objects of live workloads": {samples: days(30, func(day int, s *Sample) { s.UpdateStates += 2 * day }), want: nil},
		"heap with histories": {samples: days(30, func(day int, s *Sample) {
			s.Heap, s.Resident, s.Remembered = s.Heap+float64(day), s.Resident+2*float64(day), 120+day
		}), want: nil},
		"histories that are not gone": {samples: days(30, func(day int, s *Sample) { s.Remembered += 5 * day }), want: []string{"usage histories"}},
		"one day with more heap":      {samples: days(30, func(day int, s *Sample) { s.Heap += 50 * float64(day/30) })},
		"heap grows":                  {samples: days(30, func(day int, s *Sample) { s.Heap += float64(day) }), want: []string{heap}},
		"heap of the last process":    {samples: days(30, func(day int, s *Sample) { s.Process = 1 + day/16; s.Heap += 2 * float64(day%16) }), want: []string{heap, heap}},
		"series grow after the start": {samples: days(30, func(day int, s *Sample) { s.Process = 1 + day/16; s.Series = 1000 - 400*(day/16) + 20*max(0, day-16) }), want: []string{"series"}},
		"series of deleted VPAs":      {samples: days(30, func(day int, s *Sample) { s.SeriesOfDeleted, s.OverdueSeries = 10*day, day/30 }), want: []string{"overdue series"}},
		"fewer workloads":             {samples: days(30, func(day int, s *Sample) { s.Workloads -= day / 30 }), want: []string{"workloads"}},
		"none":                        {},
	} {
		var got []string
		for _, v := range Grown(c.samples) {
			got = append(got, v.Object)
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%s: %v grow, want %v", name, got, c.want)
		}
	}
}
