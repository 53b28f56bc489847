// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package explain

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"podfit.dev/podfit/internal/app/process"
	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/core/explanation"
	"podfit.dev/podfit/internal/core/recommend"
	"podfit.dev/podfit/internal/core/sizing"
	"podfit.dev/podfit/internal/edge/kube"
	"podfit.dev/podfit/test/kubetest"
)

// failure returns the body of an error response of the API server.
func failure(code int, reason string) string {
	return fmt.Sprintf(`{"kind":"Status","apiVersion":"v1","status":"Failure","reason":%q,"code":%d}`, reason, code)
}

func clientsOf(t *testing.T, api *kubetest.FakeAPI) *kube.Clients {
	t.Helper()
	clients, err := kube.ClientsFor(api.Config())
	if err != nil {
		t.Fatal(err)
	}
	return clients
}

func TestReadProfiles_objects_validOnesAreUsableAndAllAreListed(t *testing.T) {
	const path = "/apis/podfit.dev/v1alpha1/sizingprofiles"
	for name, tt := range map[string]struct {
		code   int    // of the response to the list; 0: the objects
		reason string // of the response
		err    error
		listed bool
		usable string // profiles that are usable
		known  string // profiles that exist
	}{
		"profiles":  {0, "", nil, true, "night", "broken night"},
		"no CRD":    {404, "NotFound", nil, true, "", ""},
		"no right":  {403, "Forbidden", kube.ErrForbidden, false, "", ""},
		"no answer": {503, "ServiceUnavailable", kube.ErrBusy, false, "", ""},
	} {
		api := kubetest.NewFakeAPI(t)
		api.Apply(path, `{"metadata":{"name":"night"},"spec":{"base":"cost"}}`)
		api.Apply(path, `{"metadata":{"name":"broken"},"spec":{"base":"none"}}`)
		if tt.code != 0 {
			api.Reply("GET "+path, tt.code, failure(tt.code, tt.reason))
		}
		catalog := sizing.NewCatalog(recommend.DefaultParams(), false)
		if err := process.ReadProfiles(t.Context(), clientsOf(t, api), catalog); !errors.Is(err, tt.err) {
			t.Errorf("%s: error %v, want %v", name, err, tt.err)
		}
		var usable, known []string
		for _, custom := range []string{"broken", "night"} {
			a := &cluster.Autoscaler{Recommender: custom}
			if catalog.Contains(a) {
				known = append(known, custom)
				if catalog.Of(a).Usable {
					usable = append(usable, custom)
				}
			}
		}
		if strings.Join(usable, " ") != tt.usable || strings.Join(known, " ") != tt.known || catalog.IsListed() != tt.listed {
			t.Errorf("%s: usable %q, known %q, listed: %t; want %q, %q, %t", name, usable, known, catalog.IsListed(), tt.usable, tt.known, tt.listed)
		}
	}
}

// Names are those of the namespace of the flag, else of the kubeconfig's context. Nodes have no namespace.
func TestNames_namespaceOfFlagOrContext_onlyItsObjects(t *testing.T) {
	api := kubetest.NewFakeAPI(t)
	for _, namespace := range []string{"shop", "other"} {
		api.Apply("/api/v1/pods", fmt.Sprintf(`{"metadata":{"namespace":%q,"name":"web-%s"}}`, namespace, namespace))
		api.Apply("/api/v1/pods", fmt.Sprintf(`{"metadata":{"namespace":%q,"name":"db"}}`, namespace))
	}
	api.Apply("/api/v1/nodes", `{"metadata":{"name":"web-node"}}`)
	file := kubetest.Context{Namespace: "shop"}.Kubeconfig(t, api.URL())
	for name, tt := range map[string]struct{ flag, kind, want string }{
		"namespace of the context": {"", "pod", "pod/web-shop"},
		"namespace of the flag":    {"other", "pod", "pod/web-other"},
		"unknown namespace":        {"none", "pod", ""},
		"nodes":                    {"other", "node", "node/web-node"},
	} {
		c := &Config{Kube: kube.Config{Kubeconfig: file}, Namespace: tt.flag}
		if got := strings.Join(process.ObjectNames(t.Context(), c.Kube, c.namespace(), tt.kind+"/web"), " "); got != tt.want {
			t.Errorf("%s: names %q, want %q", name, got, tt.want)
		}
	}
	api.Reply("GET /api/v1/nodes", 403, failure(403, "Forbidden"))
	c := &Config{Kube: kube.Config{Kubeconfig: file}}
	if got := process.ObjectNames(t.Context(), c.Kube, c.namespace(), "node/"); got != nil {
		t.Errorf("names %q of nodes that may not be listed, want none", got)
	}
}

func TestNames_everyOfferedKind_objectsAreListed(t *testing.T) {
	api := kubetest.NewFakeAPI(t)
	c := &Config{Kube: kube.Config{Kubeconfig: kubetest.Context{Namespace: "shop"}.Kubeconfig(t, api.URL())}}
	for _, k := range kinds {
		if !k.offered {
			continue
		}
		path := "/api/v1/"
		if k.workload.Group != "" {
			path = "/apis/" + k.workload.Group + "/v1/"
		}
		api.Apply(path+k.names[len(k.names)-1], `{"metadata":{"namespace":"shop","name":"web"}}`)
		want := k.names[0] + "/web"
		if got := process.ObjectNames(t.Context(), c.Kube, c.namespace(), k.names[0]+"/w"); !slices.Equal(got, []string{want}) {
			t.Errorf("names %q, want %s", got, want)
		}
	}
}

// The usage of other pods is not counted. If it cannot be read, the explanation says so.
func TestMeasure_podsOfTheNamespace_onlyThoseOfTheWorkloadAreCounted(t *testing.T) {
	const path = "/apis/metrics.k8s.io/v1beta1/namespaces/shop/pods"
	item := func(namespace, name string) string {
		return fmt.Sprintf(`{"metadata":{"namespace":%q,"name":%q},"timestamp":"2026-11-22T03:00:00Z","window":"30s",
			"containers":[{"name":"app","usage":{"cpu":"250m","memory":"100Mi"}}]}`, namespace, name)
	}
	list := `{"kind":"PodMetricsList","apiVersion":"metrics.k8s.io/v1beta1","items":[` +
		strings.Join([]string{item("shop", "other"), item("shop", "web-1"), item("shop", "web-10"), item("else", "web-1")}, ",") + `]}`
	for name, tt := range map[string]struct {
		code    int
		body    string
		pods    []string // of the samples
		missing string
	}{
		"usage":          {200, list, []string{"shop/web-1"}, ""},
		"no Metrics API": {404, failure(404, "NotFound"), nil, "The cluster has no Metrics API, so the current usage is not known."},
		"no right":       {403, failure(403, "Forbidden"), nil, "The current usage was not read ("},
	} {
		api := kubetest.NewFakeAPI(t)
		api.Reply("GET "+path, tt.code, tt.body)
		in := &explanation.Input{}
		in.Pods = []*cluster.Pod{{Key: cluster.Key{Namespace: "shop", Name: "web-0"}}, {Key: cluster.Key{Namespace: "shop", Name: "web-1"}}}
		new(Config).measure(t.Context(), in, clientsOf(t, api), "shop")
		var pods []string
		for _, s := range in.Usage {
			pods = append(pods, s.Pod.String())
		}
		missing := strings.Join(in.Unknown(), " ")
		if !slices.Equal(pods, tt.pods) || !strings.HasPrefix(missing, tt.missing) || (missing == "") != (tt.missing == "") {
			t.Errorf("%s: samples of %q, missing %q; want %q and %q", name, pods, missing, tt.pods, tt.missing)
		}
	}
}
