// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package actuation

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/edge/kube"
	"podfit.dev/podfit/test/kubetest"
)

const (
	deploymentsPath = "/apis/apps/v1/deployments"
	deploymentPath  = "/apis/apps/v1/namespaces/shop/deployments/web"
)

var webDeployment = cluster.Workload{Group: "apps", Kind: "Deployment", Namespace: "shop", Name: "web"}

func applyDeployment(f *kubetest.FakeAPI, meta string, replicas string) {
	f.Apply(deploymentsPath, `{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"namespace":"shop","name":"web","uid":"d","generation":2`+meta+
		`},"spec":{"minReadySeconds":5,"replicas":`+replicas+`},"status":{"observedGeneration":2,"replicas":3,"updatedReplicas":2}}`)
}

func TestDeploymentWriter_recordWrittenAndRead_isTheSame(t *testing.T) {
	surge := cluster.Surge{Replicas: 3, Pod: "web-1", UID: "u", Cost: -7, Deadline: kubetest.At(t, "2026-03-02T14:30:00Z"), Lowered: true}
	for name, meta := range map[string]string{"no annotations": "", "other annotations": `,"annotations":{"x":"y"}`, "an older record": `,"annotations":{"podfit.dev/surge":"{}"}`} {
		f := kubetest.NewFakeAPI(t)
		applyDeployment(f, meta, "3")
		w := NewDeploymentWriter(clientsOf(f))
		d, err := w.Read(t.Context(), webDeployment)
		if err != nil {
			t.Fatal(err)
		}
		if err := w.Write(t.Context(), &d, 4, &surge); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		got, err := w.Read(t.Context(), webDeployment)
		if err != nil {
			t.Fatal(err)
		}
		want := cluster.Deployment{
			Workload: webDeployment, UID: "d", Version: got.Version, Replicas: 4, MinReady: 5 * time.Second, Observed: true, Pods: 3, Updated: 2,
			Annotated: true, Recorded: true, Surge: &surge,
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s: (-want +got)\n%s", name, diff)
		}
		if err := w.Write(t.Context(), &got, 3, nil); err != nil {
			t.Fatal(err)
		}
		o := f.Object(deploymentsPath, "shop/web")
		if n := o["spec"].(map[string]any)["replicas"]; n != float64(3) {
			t.Errorf("%s: %v replicas after the surge", name, n)
		}
		if a, _ := kubetest.MetaOf(o)["annotations"].(map[string]any); a["podfit.dev/surge"] != nil {
			t.Errorf("%s: annotations %v after the surge", name, a)
		}
	}
}

// A surge changes only the replicas of a Deployment and its own annotation, as docs/scope.md says: not the template, nor what others set.
func TestDeploymentWriter_anyWrite_changesOnlyReplicasAndItsRecord(t *testing.T) {
	surge := cluster.Surge{Replicas: 3, Pod: "web-1", UID: "u", Cost: -7, Deadline: kubetest.At(t, "2026-03-02T14:30:00Z"), Lowered: true}
	for name, s := range map[string]*cluster.Surge{"begins or continues": &surge, "ends": nil} {
		f := kubetest.NewFakeAPI(t)
		f.Apply(deploymentsPath, `{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"namespace":"shop","name":"web","uid":"d","labels":{"team":"a"},
			"annotations":{"x":"y","podfit.dev/surge":"{}"}},"spec":{"replicas":3,"paused":false,"strategy":{"type":"RollingUpdate"},"selector":{"matchLabels":{"app":"web"}},
			"template":{"metadata":{"labels":{"app":"web"},"annotations":{"a":"b"}},"spec":{"containers":[{"name":"app","resources":{"requests":{"cpu":"1"}}}]}}}}`)
		w := NewDeploymentWriter(clientsOf(f))
		d, err := w.Read(t.Context(), webDeployment)
		if err != nil {
			t.Fatal(err)
		}
		before := f.Object(deploymentsPath, "shop/web")
		if err := w.Write(t.Context(), &d, 4, s); err != nil {
			t.Fatal(err)
		}
		after := f.Object(deploymentsPath, "shop/web")
		if after["spec"].(map[string]any)["replicas"] != float64(4) {
			t.Errorf("%s: not written", name)
		}
		for _, o := range []map[string]any{before, after} {
			delete(o["spec"].(map[string]any), "replicas")
			delete(kubetest.MetaOf(o), "resourceVersion")
			delete(kubetest.MetaOf(o)["annotations"].(map[string]any), "podfit.dev/surge")
		}
		if diff := cmp.Diff(before, after); diff != "" {
			t.Errorf("%s: other fields changed (-before +after)\n%s", name, diff)
		}
	}
}

// A write changes nothing if the Deployment has changed since it was read, whatever has changed.
func TestDeploymentWriter_deploymentChangedSinceItWasRead_nothingIsWritten(t *testing.T) {
	surge := cluster.Surge{Replicas: 3, Pod: "web-1", UID: "u"}
	for name, change := range map[string]func(*kubetest.FakeAPI){
		"replicas":                func(f *kubetest.FakeAPI) { applyDeployment(f, "", "7") },
		"annotation":              func(f *kubetest.FakeAPI) { applyDeployment(f, `,"annotations":{"podfit.dev/surge":"{}"}`, "3") },
		"nothing but the version": func(f *kubetest.FakeAPI) { applyDeployment(f, "", "3") },
	} {
		f := kubetest.NewFakeAPI(t)
		applyDeployment(f, "", "3")
		w := NewDeploymentWriter(clientsOf(f))
		d, err := w.Read(t.Context(), webDeployment)
		if err != nil {
			t.Fatal(err)
		}
		change(f)
		before := f.Object(deploymentsPath, "shop/web")
		if err := w.Write(t.Context(), &d, 4, &surge); !errors.Is(err, kube.ErrInvalid) {
			t.Errorf("%s: error %v", name, err)
		}
		if diff := cmp.Diff(before, f.Object(deploymentsPath, "shop/web")); diff != "" {
			t.Errorf("%s: written\n%s", name, diff)
		}
	}
}

func TestDeploymentWriter_invalidRecord_isRecordedWithoutSurge(t *testing.T) {
	for name, record := range map[string]string{
		"no JSON": "yes", "no pod": `{\"replicas\":3}`, "no replicas": `{\"uid\":\"u\"}`, "negative": `{\"replicas\":-1,\"uid\":\"u\"}`,
		"largest": `{\"replicas\":2147483647,\"uid\":\"u\"}`, "too long": `{\"replicas\":3,\"uid\":\"` + strings.Repeat("u", maxSurgeBytes) + `\"}`,
	} {
		f := kubetest.NewFakeAPI(t)
		applyDeployment(f, `,"annotations":{"podfit.dev/surge":"`+record+`"}`, "4")
		d, err := NewDeploymentWriter(clientsOf(f)).Read(t.Context(), webDeployment)
		if err != nil || !d.Recorded || d.Surge != nil {
			t.Errorf("%s: %+v, error %v", name, d, err)
		}
	}
}

func TestDeploymentWriter_refusedOrGone_errorHasTheReason(t *testing.T) {
	f := kubetest.NewFakeAPI(t)
	w := NewDeploymentWriter(clientsOf(f))
	if _, err := w.Read(t.Context(), webDeployment); !errors.Is(err, kube.ErrNotFound) {
		t.Errorf("a Deployment that does not exist: %v", err)
	}
	applyDeployment(f, "", "3")
	f.Reply("PATCH "+deploymentPath, 403, `{"kind":"Status","apiVersion":"v1","status":"Failure","code":403,"reason":"Forbidden","message":"deployments.apps \"web\" is forbidden"}`)
	d, err := w.Read(t.Context(), webDeployment)
	if err != nil {
		t.Fatal(err)
	}
	if err := w.Write(t.Context(), &d, 4, &cluster.Surge{Replicas: 3, UID: "u"}); !errors.Is(err, kube.ErrForbidden) {
		t.Errorf("without the right: %v", err)
	}
}

// A Deployment with the strategy Recreate, or with maxSurge 0, must never have an additional pod: two pods of it may damage their data.
func TestDeploymentWriter_strategyAllowsNoAdditionalPod_isExclusive(t *testing.T) {
	for name, c := range map[string]struct {
		strategy string
		want     bool
	}{
		"default":            {`{}`, false},
		"rolling update":     {`{"type":"RollingUpdate","rollingUpdate":{"maxSurge":"25%","maxUnavailable":"25%"}}`, false},
		"recreate":           {`{"type":"Recreate"}`, true},
		"no surge":           {`{"type":"RollingUpdate","rollingUpdate":{"maxSurge":0,"maxUnavailable":1}}`, true},
		"no surge, percent":  {`{"type":"RollingUpdate","rollingUpdate":{"maxSurge":"0%","maxUnavailable":1}}`, true},
		"surge by one":       {`{"type":"RollingUpdate","rollingUpdate":{"maxSurge":1,"maxUnavailable":0}}`, false},
		"a value that is no": {`{"type":"RollingUpdate","rollingUpdate":{"maxSurge":"x"}}`, true},
	} {
		f := kubetest.NewFakeAPI(t)
		f.Apply(deploymentsPath, `{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"namespace":"shop","name":"web","uid":"d"},"spec":{"strategy":`+c.strategy+`}}`)
		d, err := NewDeploymentWriter(clientsOf(f)).Read(t.Context(), webDeployment)
		if err != nil || d.Exclusive != c.want {
			t.Errorf("%s: %t, error %v", name, d.Exclusive, err)
		}
	}
}

// A Deployment copies its annotations to its ReplicaSet, and "kubectl rollout undo" copies them back. Such a record has another owner.
func TestDeploymentWriter_recordOfAnotherClient_isForeign(t *testing.T) {
	owns := func(manager, key string) string {
		return `{"manager":"` + manager + `","operation":"Update","apiVersion":"apps/v1","fieldsType":"FieldsV1","fieldsV1":{"f:metadata":{"f:annotations":{".":{},"f:` + key + `":{}}}}}`
	}
	for name, c := range map[string]struct {
		managed string
		want    bool
	}{
		"podfit":                 {owns("kubectl", "x") + "," + owns("podfit", "podfit.dev/surge"), false},
		"kubectl":                {owns("kubectl-rollout", "podfit.dev/surge") + "," + owns("podfit", "x"), true},
		"both":                   {owns("argocd", "podfit.dev/surge") + "," + owns("podfit", "podfit.dev/surge"), false},
		"managers were removed":  {`{}`, false},
		"invalid managed fields": {`{"manager":"x","fieldsV1":{"f:metadata":[]}}`, false},
	} {
		f := kubetest.NewFakeAPI(t)
		applyDeployment(f, `,"annotations":{"podfit.dev/surge":"{\"replicas\":3,\"uid\":\"u\"}"},"managedFields":[`+c.managed+`]`, "4")
		d, err := NewDeploymentWriter(clientsOf(f)).Read(t.Context(), webDeployment)
		if err != nil || d.Foreign != c.want || d.Surge == nil {
			t.Errorf("%s: %+v, error %v", name, d, err)
		}
	}
}

// A record that others have removed cannot be removed again: a JSON patch that removes a missing field is invalid.
func TestDeploymentWriter_recordWasRemovedByOthers_replicasAreSetBack(t *testing.T) {
	f := kubetest.NewFakeAPI(t)
	applyDeployment(f, "", "4")
	w := NewDeploymentWriter(clientsOf(f))
	d, err := w.Read(t.Context(), webDeployment)
	if err != nil {
		t.Fatal(err)
	}
	if err := w.Write(t.Context(), &d, 3, nil); err != nil {
		t.Fatal(err)
	}
	if n := f.Object(deploymentsPath, "shop/web")["spec"].(map[string]any)["replicas"]; n != float64(3) {
		t.Errorf("%v replicas", n)
	}
}
