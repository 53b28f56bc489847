// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package apiserver

import (
	"encoding/json"
	"net/http"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/version"
)

// serveDocument serves the paths that are not resources: discovery, version, health and metrics. It reports whether the path is one of them.
func (s *Server) serveDocument(w *meter, q *request) (bool, error) {
	path := strings.TrimSuffix(q.URL.Path, "/")
	var document any
	switch parts := strings.Split(strings.TrimPrefix(path, "/"), "/"); {
	case path == "/version":
		document = version.Info{Major: "1", Minor: "37", GitVersion: "v1.37.2", Platform: "linux/amd64"}
	case path == "/healthz" || path == "/readyz" || path == "/livez":
		respond(w, q, http.StatusOK, "text/plain", []byte("ok"))
		return true, nil
	case path == "/metrics":
		text := `kubernetes_feature_enabled{name="InPlacePodVerticalScalingSchedulerPreemption",stage="ALPHA"} 0` + "\n"
		respond(w, q, http.StatusOK, "text/plain", []byte(text))
		return true, nil
	case path == "/api":
		document = metav1.APIVersions{TypeMeta: metav1.TypeMeta{Kind: "APIVersions"}, Versions: []string{"v1"}}
	case path == "/apis":
		document = groups()
	case parts[0] == "api" && len(parts) == 2:
		document = resources("", parts[1])
	case parts[0] == "apis" && len(parts) == 3:
		list := resources(parts[1], parts[2])
		if len(list.APIResources) == 0 {
			return false, nil
		}
		document = list
	default:
		return false, nil
	}
	b, err := json.Marshal(document)
	if err == nil {
		respond(w, q, http.StatusOK, runtime.ContentTypeJSON, b)
	}
	return true, err
}

// all returns all kinds of the server.
func all() []*Kind {
	return append(slices.Concat(kinds, reviews), metricsKind)
}

func groups() metav1.APIGroupList {
	out := metav1.APIGroupList{TypeMeta: metav1.TypeMeta{Kind: "APIGroupList", APIVersion: "v1"}}
	for _, k := range all() {
		known := slices.ContainsFunc(out.Groups, func(g metav1.APIGroup) bool { return g.Name == k.Group })
		if k.Group == "" || known {
			continue
		}
		v := metav1.GroupVersionForDiscovery{GroupVersion: k.APIVersion(), Version: k.Version}
		out.Groups = append(out.Groups, metav1.APIGroup{Name: k.Group, Versions: []metav1.GroupVersionForDiscovery{v}, PreferredVersion: v})
	}
	return out
}

func resources(group, version string) metav1.APIResourceList {
	out := metav1.APIResourceList{TypeMeta: metav1.TypeMeta{Kind: "APIResourceList", APIVersion: "v1"}, GroupVersion: strings.TrimPrefix(group+"/"+version, "/")}
	for _, k := range all() {
		if k.Group != group || k.Version != version {
			continue
		}
		verbs := metav1.Verbs{"create", "delete", "get", "list", "patch", "update", "watch"}
		add := func(sub string, r metav1.APIResource) {
			r.Name = k.Resource + sub
			r.Namespaced = !k.Cluster
			r.Verbs = verbs
			out.APIResources = append(out.APIResources, r)
		}
		add("", metav1.APIResource{Kind: k.Name, SingularName: strings.ToLower(k.Name)})
		if k.Status {
			add("/status", metav1.APIResource{Kind: k.Name})
		}
		if k.Scale {
			add("/scale", metav1.APIResource{Kind: "Scale", Group: "autoscaling", Version: "v1"})
		}
		if k.Resource == "pods" && k.Group == "" {
			add("/resize", metav1.APIResource{Kind: "Pod"})
			add("/eviction", metav1.APIResource{Kind: "Eviction", Group: "policy", Version: "v1"})
		}
	}
	return out
}
