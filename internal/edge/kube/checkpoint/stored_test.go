// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package checkpoint

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/core/usage"
	"podfit.dev/podfit/internal/edge/kube"
	"podfit.dev/podfit/test/kubetest"
)

// restored returns the containers of workload web with usage after Restore.
func restored(t *testing.T, edit func(map[Key]usage.Checkpoint)) string {
	t.Helper()
	w, at := cluster.Workload{Group: "apps", Kind: "Deployment", Namespace: "shop", Name: "web"}, time.Date(2026, 11, 22, 3, 0, 0, 0, time.UTC)
	source := usage.NewStore(usage.DefaultConfig())
	source.Tick(at)
	p := &cluster.Pod{Key: cluster.Key{Namespace: "shop", Name: "web-1"}, UID: "u", Top: w, Phase: cluster.Running, Containers: []cluster.Container{{Name: "app"}}}
	source.Track(p)
	source.Observe(usage.Sample{Pod: p.Key, Container: "app", At: at, CPU: 1, Memory: 1 << 30, Has: cluster.Both})
	saved, ok := source.Checkpoint(w, "app", at)
	if !ok {
		t.Fatal("no checkpoint after a sample")
	}
	a := &cluster.Autoscaler{Key: cluster.Key{Namespace: "shop", Name: "web"}}
	all := map[Key]usage.Checkpoint{{Autoscaler: a.Key, Container: "app"}: saved}
	edit(all)
	store := usage.NewStore(usage.DefaultConfig())
	store.Tick(at)
	Stored{Checkpoints: all}.Restore(store, map[cluster.Key]cluster.Workload{a.Key: w}, []cluster.Workload{w})
	var names []string
	for _, h := range store.All(w) {
		names = append(names, h.Container())
	}
	return strings.Join(names, " ")
}

func TestStored_checkpoints_onlyThoseOfTheVPAAndTheWorkload(t *testing.T) {
	own := Key{Autoscaler: cluster.Key{Namespace: "shop", Name: "web"}, Container: "app"}
	change := func(f func(*usage.Checkpoint)) func(map[Key]usage.Checkpoint) {
		return func(all map[Key]usage.Checkpoint) { c := all[own]; f(&c); all[own] = c }
	}
	for name, tt := range map[string]struct {
		edit func(map[Key]usage.Checkpoint)
		want string
	}{
		"of this workload":       {change(func(*usage.Checkpoint) {}), "app"},
		"written by upstream":    {change(func(c *usage.Checkpoint) { c.Workload = cluster.Workload{} }), "app"},
		"of the previous target": {change(func(c *usage.Checkpoint) { c.Workload.Name = "old" }), ""},
		"that cannot be decoded": {change(func(c *usage.Checkpoint) { c.Version = "v0" }), ""},
		"of another VPA of the namespace": {func(all map[Key]usage.Checkpoint) {
			c := all[own]
			delete(all, own)
			all[Key{Autoscaler: cluster.Key{Namespace: "shop", Name: "b"}, Container: "app"}] = c
		}, ""},
	} {
		if got := restored(t, tt.edit); got != tt.want {
			t.Errorf("checkpoint %s: containers with history %q, want %q", name, got, tt.want)
		}
	}
}

// Each of the two kinds of objects has its own error, and the other one is read in spite of it.
func TestReadStored_oneKindCannotBeRead_errorNamesIt(t *testing.T) {
	const (
		checkpoints = "/apis/autoscaling.k8s.io/v1/namespaces/shop/verticalpodautoscalercheckpoints"
		histories   = "/apis/podfit.dev/v1alpha1/namespaces/shop/usagehistories"
	)
	for name, tt := range map[string]struct {
		path                           string
		code                           int
		reason                         string
		wantCheckpoints, wantHistories string // prefixes of the errors; "": none
	}{
		"all are readable":       {"", 0, "", "", ""},
		"checkpoints, no right":  {checkpoints, http.StatusForbidden, "Forbidden", "read the checkpoints of namespace shop: ", ""},
		"histories, no right":    {histories, http.StatusForbidden, "Forbidden", "", "read the usage histories of namespace shop: "},
		"CRD is not installed":   {histories, http.StatusNotFound, "NotFound", "", ""},
		"server does not answer": {histories, http.StatusServiceUnavailable, "ServiceUnavailable", "", "read the usage histories of namespace shop: "},
	} {
		api := kubetest.NewFakeAPI(t)
		if tt.path != "" {
			api.Reply("GET "+tt.path, tt.code, `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"`+tt.reason+`"}`)
		}
		clients, err := kube.ClientsFor(api.Config())
		if err != nil {
			t.Fatal(err)
		}
		_, first, second := ReadStored(t.Context(), clients, StorageOptions{Namespace: "shop"})
		for _, c := range []struct {
			err  error
			want string
		}{{first, tt.wantCheckpoints}, {second, tt.wantHistories}} {
			if text := fmt.Sprint(c.err); (c.err == nil) != (c.want == "") || c.err != nil && !strings.HasPrefix(text, c.want) {
				t.Errorf("%s: error %s, want %q", name, text, c.want)
			}
		}
	}
	if got := scopeOf(""); got != "all namespaces" {
		t.Errorf("scope %q, want all namespaces", got)
	}
}
