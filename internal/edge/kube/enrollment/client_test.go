// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package enrollment

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "podfit.dev/podfit/api/v1"
	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/core/optin"
	"podfit.dev/podfit/internal/edge/kube"
	"podfit.dev/podfit/internal/edge/kube/projection"
	"podfit.dev/podfit/test/kubetest"
)

func TestNamespace_labelsAndAnnotations_giveTheSetting(t *testing.T) {
	in := func(mode cluster.Mode, change ...func(*optin.Setting)) optin.Namespace {
		s := optin.Setting{Mode: mode, Profile: "default", Policy: cluster.ContainerPolicy{Container: "*"}}
		for _, c := range change {
			c(&s)
		}
		return optin.Namespace{Name: "shop", On: true, Setting: s}
	}
	off := map[string]string{"podfit.dev/autoscale": "off"}
	goldilocks := func(mode ...string) map[string]string {
		labels := map[string]string{"goldilocks.fairwinds.com/enabled": "true"}
		for _, m := range mode {
			labels["goldilocks.fairwinds.com/vpa-update-mode"] = m
		}
		return labels
	}
	for name, c := range map[string]struct {
		labels, annotations map[string]string
		want                optin.Namespace
		problem             string // the rest is not compared
	}{
		"none":                     {want: optin.Namespace{Name: "shop"}},
		"off":                      {labels: off, want: in(cluster.Off)},
		"initial":                  {labels: map[string]string{"podfit.dev/autoscale": "initial"}, want: in(cluster.Initial)},
		"recreate":                 {labels: map[string]string{"podfit.dev/autoscale": "recreate"}, want: in(cluster.Recreate)},
		"in place":                 {labels: map[string]string{"podfit.dev/autoscale": "in-place-or-recreate"}, want: in(cluster.InPlaceOrRecreate)},
		"invalid":                  {labels: map[string]string{"podfit.dev/autoscale": "Off"}, problem: `podfit.dev/autoscale is "Off"; set off, initial, recreate or in-place-or-recreate`},
		"empty":                    {labels: map[string]string{"podfit.dev/autoscale": ""}, problem: `podfit.dev/autoscale is "";`},
		"Goldilocks":               {labels: goldilocks(), want: in(cluster.Off)},
		"Goldilocks, not enabled":  {labels: map[string]string{"goldilocks.fairwinds.com/enabled": "false"}, want: optin.Namespace{Name: "shop"}},
		"Goldilocks, mode":         {labels: goldilocks("Initial"), want: in(cluster.Initial)},
		"Goldilocks, mode auto":    {labels: goldilocks("auto"), want: in(cluster.Recreate)},
		"Goldilocks, annotation":   {labels: goldilocks(), annotations: map[string]string{"goldilocks.fairwinds.com/vpa-update-mode": "InPlaceOrRecreate"}, want: in(cluster.InPlaceOrRecreate)},
		"Goldilocks, invalid mode": {labels: goldilocks("x"), problem: `goldilocks.fairwinds.com/vpa-update-mode is "x"`},
		"Goldilocks and podfit":    {labels: map[string]string{"goldilocks.fairwinds.com/enabled": "true", "podfit.dev/autoscale": "recreate"}, want: in(cluster.Recreate)},
		"profile":                  {labels: off, annotations: map[string]string{"podfit.dev/profile": "cost"}, want: in(cluster.Off, func(s *optin.Setting) { s.Profile = "cost" })},
		"invalid profile":          {labels: off, annotations: map[string]string{"podfit.dev/profile": "Cost!"}, problem: `podfit.dev/profile is "Cost!"`},
		"bounds": {labels: off, annotations: map[string]string{"podfit.dev/min-allowed-cpu": "100m", "podfit.dev/max-allowed-memory": "1Gi"}, want: in(cluster.Off, func(s *optin.Setting) {
			s.Policy.MinAllowed = s.Policy.MinAllowed.Set(cluster.CPU, 100)
			s.Policy.MaxAllowed = s.Policy.MaxAllowed.Set(cluster.Memory, 1<<30)
		})},
		"bounds without a label": {annotations: map[string]string{"podfit.dev/min-allowed-cpu": "100m"}, want: optin.Namespace{Name: "shop"}},
		"invalid bound":          {labels: off, annotations: map[string]string{"podfit.dev/min-allowed-cpu": "lots"}, problem: `podfit.dev/min-allowed-cpu is "lots"; set a quantity above 0`},
		"negative bound":         {labels: off, annotations: map[string]string{"podfit.dev/max-allowed-memory": "-1Gi"}, problem: "podfit.dev/max-allowed-memory is"},
		"takes minutes to parse": {labels: off, annotations: map[string]string{"podfit.dev/max-allowed-memory": "1e-999999999"}, problem: "podfit.dev/max-allowed-memory is"},
		"long profile":           {labels: off, annotations: map[string]string{"podfit.dev/profile": strings.Repeat("x", 1<<17)}, problem: "podfit.dev/profile is"},
	} {
		t.Run(name, func(t *testing.T) {
			got := namespace(&metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Name: "shop", Labels: c.labels, Annotations: c.annotations}})
			if !strings.HasPrefix(got.Problem, c.problem) || (got.Problem == "") != (c.problem == "") || len(got.Problem) > 200 {
				t.Errorf("problem %q, want %q", got.Problem, c.problem)
			}
			if diff := cmp.Diff(c.want, got, cmp.AllowUnexported(cluster.Resources{})); diff != "" && c.problem == "" {
				t.Errorf("namespace (-want +got)\n%s", diff)
			}
		})
	}
}

const (
	vpas        = "/apis/autoscaling.k8s.io/v1/verticalpodautoscalers"
	deployments = "/apis/apps/v1/deployments"
	vpaName     = "podfit-deployment-web"
	vpaPath     = "/apis/autoscaling.k8s.io/v1/namespaces/shop/verticalpodautoscalers/" + vpaName
	reviews     = "POST /apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
)

// clientOf returns a client that has the right to create VPAs.
func clientOf(t *testing.T, f *kubetest.FakeAPI) *Client {
	t.Helper()
	f.Reply(reviews, 201, `{"kind":"SelfSubjectAccessReview","apiVersion":"authorization.k8s.io/v1","status":{"allowed":true}}`)
	clients, err := kube.ClientsFor(f.Config())
	if err != nil {
		t.Fatal(err)
	}
	return &Client{Clients: clients}
}

func change(act string, s optin.Setting) *optin.Change {
	c := &optin.Change{Act: act, Setting: s, Target: cluster.Workload{Group: "apps", Kind: "Deployment", Namespace: "shop", Name: "web"}}
	if act != "create" {
		c.UID = "u2"
	}
	return c
}

// stored returns the stored autoscaler as the watch reads it.
func stored(t *testing.T, f *kubetest.FakeAPI) *cluster.Autoscaler {
	t.Helper()
	data, err := json.Marshal(f.Object(vpas, "shop/"+vpaName))
	if err != nil {
		t.Fatal(err)
	}
	var o v1.VerticalPodAutoscaler
	if err := json.Unmarshal(data, &o); err != nil {
		t.Fatal(err)
	}
	return projection.Autoscaler(&o)
}

func TestWrite_created_isReadAsWhatWasDecided(t *testing.T) {
	all := cluster.ContainerPolicy{Container: "*"}
	bounded := cluster.ContainerPolicy{Container: "*", MinAllowed: cluster.Amounts(100, 64<<20), MaxAllowed: cluster.Amounts(2000, 1<<30)}
	for _, s := range []optin.Setting{{Mode: cluster.Off, Profile: "default", Policy: all}, {Mode: cluster.InPlaceOrRecreate, Profile: "cost", Policy: bounded}} {
		f := kubetest.NewFakeAPI(t)
		f.Apply(deployments, `{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"namespace":"shop","name":"web","uid":"u1"}}`)
		if err := clientOf(t, f).Write(t.Context(), time.Now(), change("create", s)); err != nil {
			t.Fatalf("%v: %v", s.Mode, err)
		}
		a := stored(t, f)
		namespaces := map[string]optin.Namespace{"shop": {Name: "shop", On: true, Setting: s}}
		if plan := (optin.Book{}).Plan(time.Now(), namespaces, []cluster.Workload{a.Target}, []*cluster.Autoscaler{a}); len(plan) > 0 || !a.OptedIn {
			t.Errorf("%v: the new VPA %+v is not up to date: %+v", s.Mode, a, plan)
		}
		meta := kubetest.MetaOf(f.Object(vpas, "shop/"+vpaName))
		want := []any{map[string]any{"apiVersion": "apps/v1", "kind": "Deployment", "name": "web", "uid": "u1"}}
		if diff := cmp.Diff(want, meta["ownerReferences"]); diff != "" {
			t.Errorf("%v: owners (-want +got)\n%s", s.Mode, diff)
		}
		if got := fmt.Sprint(meta["labels"]); got != "map[app.kubernetes.io/managed-by:podfit podfit.dev/namespace:shop]" {
			t.Errorf("%v: labels %s", s.Mode, got)
		}
	}
}

func TestWrite_createFails_errorHasTheReason(t *testing.T) {
	f := kubetest.NewFakeAPI(t)
	c := clientOf(t, f)
	if err := c.Write(t.Context(), time.Now(), change("create", optin.Setting{})); err == nil || !strings.Contains(err.Error(), "read the owner") {
		t.Errorf("the workload does not exist: %v", err)
	}
	f.Apply(deployments, `{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"namespace":"shop","name":"web"}}`)
	f.Apply(vpas, `{"metadata":{"namespace":"shop","name":"`+vpaName+`","uid":"p"}}`)
	if err := c.Write(t.Context(), time.Now(), change("create", optin.Setting{})); err == nil || kubetest.MetaOf(f.Object(vpas, "shop/"+vpaName))["uid"] != "p" {
		t.Errorf("the name is taken: %v", err)
	}
}

func TestWrite_changes_requireTheUIDAndSetOnlyPodfitsFields(t *testing.T) {
	f := kubetest.NewFakeAPI(t) // it applies no merge patches: test/e2e does
	f.Apply(vpas, `{"metadata":{"namespace":"shop","name":"`+vpaName+`","uid":"u2"}}`)
	c := clientOf(t, f)
	s := optin.Setting{Mode: cluster.Initial, Profile: "cost", Policy: cluster.ContainerPolicy{Container: "*", MaxAllowed: cluster.Amounts(500, 1<<20)}}
	for _, r := range []struct{ act, request, want string }{
		{"end", "PATCH", `{"apiVersion":"autoscaling.k8s.io/v1","kind":"VerticalPodAutoscaler","metadata":{"annotations":{"podfit.dev/opt-in-ended":"2026-03-01T12:00:00Z"},"uid":"u2"}}`},
		{"update", "PATCH", `{"apiVersion":"autoscaling.k8s.io/v1","kind":"VerticalPodAutoscaler","metadata":{"annotations":{"podfit.dev/opt-in-ended":null},"uid":"u2"},` +
			`"spec":{"recommenders":[{"name":"cost"}],"resourcePolicy":{"containerPolicies":[{"containerName":"*","maxAllowed":{"cpu":"500m","memory":"1Mi"}}]},` +
			`"targetRef":{"kind":"Deployment","name":"web","apiVersion":"apps/v1"},"updatePolicy":{"updateMode":"Initial"}}}`},
		{"delete", "DELETE", `{"apiVersion":"v1","kind":"DeleteOptions","preconditions":{"uid":"u2"}}`},
	} {
		if err := c.Write(t.Context(), time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC), change(r.act, s)); err != nil {
			t.Errorf("%s: %v", r.act, err)
		}
		if diff := cmp.Diff(r.want, f.Body(r.request+" "+vpaPath)); diff != "" {
			t.Errorf("%s: body (-want +got)\n%s", r.act, diff)
		}
	}
	if len(f.Keys(vpas)) != 0 {
		t.Errorf("after the deletion: %v", f.Keys(vpas))
	}
}

func TestNamespaces_manyAndMissingRights_areReadInPagesOrReported(t *testing.T) {
	f := kubetest.NewFakeAPI(t)
	for i := range kube.PageSize + 1 {
		f.Apply("/api/v1/namespaces", fmt.Sprintf(`{"metadata":{"name":"n%04d","labels":{"podfit.dev/autoscale":"off"}}}`, i))
	}
	f.Apply("/api/v1/namespaces", `{"metadata":{"name":"n9999","deletionTimestamp":"2026-03-01T12:00:00Z"}}`)
	c := clientOf(t, f)
	all, err := c.Namespaces(t.Context())
	if pages, _ := f.Lists("/api/v1/namespaces"); err != nil || len(all) != kube.PageSize+1 || pages != 2 || !all[kube.PageSize].On {
		t.Errorf("%d namespaces in %d pages, %v", len(all), pages, err)
	}
	f.Reply(reviews, 201, `{"kind":"SelfSubjectAccessReview","apiVersion":"authorization.k8s.io/v1","status":{"allowed":false}}`)
	if _, err := c.Namespaces(t.Context()); err == nil || !strings.Contains(err.Error(), "may not create VPAs") {
		t.Errorf("without the right: %v", err)
	}
}

func TestNamespaces_dryRun_needNoRightToWrite(t *testing.T) {
	f := kubetest.NewFakeAPI(t)
	f.Apply("/api/v1/namespaces", `{"metadata":{"name":"shop","labels":{"podfit.dev/autoscale":"off"}}}`)
	kubeconfig := filepath.Join(t.TempDir(), "kubeconfig")
	text := fmt.Sprintf("apiVersion: v1\nkind: Config\ncurrent-context: c\nclusters: [{name: c, cluster: {server: %q}}]\ncontexts: [{name: c, context: {cluster: c}}]\n", f.URL())
	if err := os.WriteFile(kubeconfig, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	clients, err := kube.NewClients(kube.Config{Kubeconfig: kubeconfig, QPS: -1, ReadOnly: true})
	if err != nil {
		t.Fatal(err)
	}
	if all, err := (&Client{Clients: clients}).Namespaces(t.Context()); err != nil || len(all) != 1 || !all[0].On {
		t.Errorf("namespaces %+v, %v", all, err)
	}
}

// Each change of the problem is logged, so it must not depend on the order of a map.
func TestNamespace_severalInvalidValues_theProblemIsAlwaysTheSame(t *testing.T) {
	m := metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Name: "shop", Labels: map[string]string{"podfit.dev/autoscale": "off"},
		Annotations: map[string]string{"podfit.dev/min-allowed-cpu": "x", "podfit.dev/max-allowed-memory": "y"}}}
	first := namespace(&m).Problem
	for range 100 {
		if again := namespace(&m).Problem; again != first {
			t.Fatalf("first %s, then %s", first, again)
		}
	}
}

func TestNamespace_minimumAboveMaximum_isAProblem(t *testing.T) {
	m := metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Name: "shop", Labels: map[string]string{"podfit.dev/autoscale": "off"},
		Annotations: map[string]string{"podfit.dev/min-allowed-cpu": "2", "podfit.dev/max-allowed-cpu": "1"}}}
	if got, want := namespace(&m).Problem, `podfit.dev/max-allowed-cpu is "1"; set at least podfit.dev/min-allowed-cpu`; got != want {
		t.Errorf("problem %q, want %q", got, want)
	}
}
