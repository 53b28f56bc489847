// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package watcher

import (
	"net/http"
	"testing"

	"k8s.io/apimachinery/pkg/labels"

	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/test/kubetest"
)

func TestSelector_eachKind_readsItsField(t *testing.T) {
	const plain = `{"spec":{"selector":{"matchLabels":{"app":"web"}}}}`
	tests := map[string]struct{ kind, path, object, want string }{
		"a Deployment":                {"Deployment", "/apis/apps/v1/namespaces/shop/deployments/web", `{"spec":{"selector":{"matchLabels":{"app":"web"},"matchExpressions":[{"key":"tier","operator":"In","values":["a","b"]}]}}}`, "app=web,tier in (a,b)"},
		"a ReplicaSet":                {"ReplicaSet", "/apis/apps/v1/namespaces/shop/replicasets/web", plain, "app=web"},
		"a StatefulSet":               {"StatefulSet", "/apis/apps/v1/namespaces/shop/statefulsets/web", plain, "app=web"},
		"a DaemonSet":                 {"DaemonSet", "/apis/apps/v1/namespaces/shop/daemonsets/web", plain, "app=web"},
		"a ReplicationController":     {"ReplicationController", "/api/v1/namespaces/shop/replicationcontrollers/web", `{"spec":{"selector":{"app":"web"}}}`, "app=web"},
		"a Job":                       {"Job", "/apis/batch/v1/namespaces/shop/jobs/web", plain, "app=web"},
		"a CronJob":                   {"CronJob", "/apis/batch/v1/namespaces/shop/cronjobs/web", `{"spec":{"jobTemplate":{"spec":{"template":{"metadata":{"labels":{"job":"report"}}}}}}}`, "job=report"},
		"a CronJob without labels":    {"CronJob", "/apis/batch/v1/namespaces/shop/cronjobs/web", `{"spec":{"jobTemplate":{}}}`, ""},
		"a Job without a selector":    {"Job", "/apis/batch/v1/namespaces/shop/jobs/web", `{"spec":{}}`, ""},
		"a kind that is not built in": {"Robot", "", "", ""},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			f := kubetest.NewFakeAPI(t)
			f.Reply("GET "+tt.path, http.StatusOK, tt.object)
			s, err := NewWorld(clientsOf(f), Options{}).Selector(t.Context(), selected(tt.kind))
			if err != nil {
				t.Fatal(err)
			}
			if got := s.String(); got != tt.want {
				t.Errorf("got %q, want %q", got, tt.want)
			}
			if tt.want == "" && s.Matches(labels.Set{}) {
				t.Error("a selector of nothing selects an object")
			}
		})
	}
	f := kubetest.NewFakeAPI(t)
	f.Reply("GET /apis/apps/v1/namespaces/shop/deployments/web", http.StatusOK, `{"spec":{"selector":7}}`)
	if _, err := NewWorld(clientsOf(f), Options{}).Selector(t.Context(), selected("Deployment")); err == nil {
		t.Error("no error for a selector that is a number")
	}
}

func selected(kind string) cluster.Workload {
	return cluster.Workload{Group: cluster.BuiltinKinds[kind], Kind: kind, Namespace: "shop", Name: "web"}
}
