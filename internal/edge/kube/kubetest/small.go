// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

// Package kubetest contains fake API servers and sample objects for tests. The servers implement only what the clients of package
// kube need.
package kubetest

import (
	"io"
	"net/http"
	"strings"
)

// SmallCluster serves the objects that the admission controller reads, in a cluster with one workload and its autoscaler.
func SmallCluster(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	respond := func(status int, body string) {
		w.WriteHeader(status)
		_, _ = io.WriteString(w, body)
	}
	list := func(apiVersion, kind, items string) {
		respond(http.StatusOK, `{"apiVersion":"`+apiVersion+`","kind":"`+kind+`","metadata":{"resourceVersion":"1"},"items":[`+items+`]}`)
	}
	resource := r.URL.Path[strings.LastIndexByte(r.URL.Path, '/')+1:]
	switch q := r.URL.Query(); {
	case q.Get("sendInitialEvents") != "":
		respond(http.StatusUnprocessableEntity, `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Invalid","code":422,"message":"no streamed lists"}`)
	case q.Get("watch") != "":
		w.WriteHeader(http.StatusOK)
		_ = http.NewResponseController(w).Flush()
		<-r.Context().Done()
	case r.URL.Path == "/api":
		respond(http.StatusOK, `{"kind":"APIVersions","versions":["v1"]}`)
	case r.URL.Path == "/apis":
		respond(http.StatusOK, `{"kind":"APIGroupList","apiVersion":"v1","groups":[]}`)
	case r.URL.Path == "/api/v1":
		respond(http.StatusOK, `{"kind":"APIResourceList","apiVersion":"v1","groupVersion":"v1","resources":[]}`)
	case resource == "verticalpodautoscalers":
		list("autoscaling.k8s.io/v1", "VerticalPodAutoscalerList", `{"metadata":{"namespace":"shop","name":"cart","uid":"a"},
			"spec":{"targetRef":{"apiVersion":"apps/v1","kind":"ReplicaSet","name":"cart"},"updatePolicy":{"updateMode":"Recreate"}},
			"status":{"recommendation":{"containerRecommendations":[{"containerName":"app","target":{"cpu":"350m","memory":"745Mi"}}]}}}`)
	case resource == "replicasets":
		list("apps/v1", "ReplicaSetList", `{"metadata":{"namespace":"shop","name":"cart","uid":"r"}}`)
	case resource == "statefulsets":
		list("apps/v1", "StatefulSetList", "")
	case resource == "daemonsets":
		list("apps/v1", "DaemonSetList", "")
	case resource == "replicationcontrollers":
		list("v1", "ReplicationControllerList", "")
	case resource == "limitranges":
		list("v1", "LimitRangeList", "")
	case resource == "resourcequotas":
		list("v1", "ResourceQuotaList", "")
	case resource == "horizontalpodautoscalers":
		list("autoscaling/v2", "HorizontalPodAutoscalerList", "")
	case resource == "poddisruptionbudgets":
		list("policy/v1", "PodDisruptionBudgetList", "")
	case resource == "deployments" || resource == "jobs" || resource == "cronjobs":
		list("meta.k8s.io/v1", "PartialObjectMetadataList", "")
	default:
		respond(http.StatusNotFound, `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"NotFound","code":404}`)
	}
}
