// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	authorizationv1 "k8s.io/api/authorization/v1"
	"k8s.io/client-go/kubernetes/scheme"

	"podfit.dev/podfit/test/kubetest"
)

// newBankNextToShop returns a shop whose pod cart-7d9f-0 shrinks in the next pass to make room for pod bank/secret-merger-0 on the same node,
// and that had a pod evicted in each namespace. The stored usage of namespace bank cannot be read.
func newBankNextToShop(t *testing.T) *shop {
	s := newShop(t, 2)
	for i := range 2 {
		s.pod(i, `{"metadata":{"creationTimestamp":"`+ago(time.Hour)+`"},"status":{"startTime":"`+ago(time.Hour)+`"},"spec":{"containers":[{"name":"app","resources":{"requests":{"cpu":"1500m","memory":"1276Mi"},"limits":{"memory":"1276Mi"}}}]}}`)
	}
	s.apply(deployments, `{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"namespace":"bank","name":"secret-merger"}}`)
	s.apply(replicaSets, `{"apiVersion":"apps/v1","kind":"ReplicaSet","metadata":{"namespace":"bank","name":"secret-merger-5c","ownerReferences":[
		{"apiVersion":"apps/v1","kind":"Deployment","name":"secret-merger","uid":"d2","controller":true}]},"spec":{"replicas":2}}`)
	for i, node := range []string{"n1", "n2"} {
		s.apply(podsPath, `{"metadata":{"namespace":"bank","name":"secret-merger-5c-%d","uid":"bank-%[1]d","creationTimestamp":%[2]q,
			"ownerReferences":[{"apiVersion":"apps/v1","kind":"ReplicaSet","name":"secret-merger-5c","uid":"r2","controller":true}]},
			"spec":{"nodeName":%[3]q,"containers":[{"name":"app","resources":{"requests":{"cpu":"600m","memory":"1Gi"}}}]},
			"status":{"phase":"Running","qosClass":"Burstable","startTime":%[2]q,"conditions":[{"type":"Ready","status":"True","lastTransitionTime":%[2]q}],
			"containerStatuses":[{"name":"app","ready":true,"state":{"running":{"startedAt":%[2]q}}}]}}`, i, ago(48*time.Hour), node)
	}
	s.apply(vpasPath, `{"metadata":{"namespace":"bank","name":"secret-merger","creationTimestamp":"2026-01-01T00:00:00Z","annotations":{"podfit.dev/make-room":"shrink"}},
		"spec":{"targetRef":{"apiVersion":"apps/v1","kind":"Deployment","name":"secret-merger"},"updatePolicy":{"updateMode":"InPlaceOrRecreate"}},
		"status":{"recommendation":{"containerRecommendations":[{"containerName":"app","lowerBound":{"cpu":"1200m","memory":"1Gi"},
		"target":{"cpu":"1500m","memory":"1Gi"},"upperBound":{"cpu":"2","memory":"4Gi"}}]}}}`)
	for namespace, pod := range map[string]string{"bank": "secret-merger-5c-9", "shop": "cart-7d9f-9"} {
		s.apply("/api/v1/events", `{"metadata":{"namespace":%q,"name":"e"},"reason":"EvictedByVPA","source":{"component":"vpa-updater"},
			"involvedObject":{"kind":"Pod","namespace":%[1]q,"name":%[2]q},"lastTimestamp":%[3]q}`, namespace, pod, ago(time.Minute))
	}
	const forbidden = `{"kind":"Status","apiVersion":"v1","status":"Failure","code":403,"reason":"Forbidden","message":"forbidden in the namespace \"bank\""}`
	s.api.Reply("GET /apis/autoscaling.k8s.io/v1/namespaces/bank/verticalpodautoscalercheckpoints", 403, forbidden)
	return s
}

// podfit explain names a pod of another namespace only to a user who may list the pods of all namespaces.
func TestExplain_restrictedUser_podsOfOtherNamespaceAreNotNamed(t *testing.T) {
	s := newBankNextToShop(t)
	for _, restricted := range []bool{false, true} {
		if restricted {
			s.api.Reply("GET "+podsPath, http.StatusForbidden, deniedReply)
		}
		for _, args := range [][]string{{"deploy/cart"}, {"deploy/cart", "-o", "json"}, {"pod/cart-7d9f-0"}, {"vpa/cart", "-o", "html"}} {
			if named := strings.Contains(s.text(args...), "bank"); named == restricted {
				t.Errorf("%v, restricted %t: the other namespace is named: %t", args, restricted, named)
			}
		}
	}
}

// reviewing returns an API server that accepts the token "viewer", whose user may list the resources of some namespaces; "" means all.
func reviewing(t *testing.T, s *shop, may map[string][]string) string {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		reply := func(kind, group, status string) {
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(http.StatusCreated)
			_, _ = fmt.Fprintf(w, `{"kind":%q,"apiVersion":"%s/v1","status":%s}`, kind, group, status)
		}
		switch {
		case strings.HasSuffix(r.URL.Path, "/tokenreviews"):
			reply("TokenReview", "authentication.k8s.io", `{"authenticated":true,"user":{"username":"viewer"}}`)
		case strings.HasSuffix(r.URL.Path, "/subjectaccessreviews"):
			body, _ := io.ReadAll(r.Body)
			var review authorizationv1.SubjectAccessReview
			if _, _, err := scheme.Codecs.UniversalDeserializer().Decode(body, nil, &review); err != nil {
				t.Error(err)
			}
			allowed := false
			for _, namespace := range may[review.Spec.ResourceAttributes.Resource] {
				allowed = allowed || namespace == "" || namespace == review.Spec.ResourceAttributes.Namespace
			}
			reply("SubjectAccessReview", "authorization.k8s.io", fmt.Sprintf(`{"allowed":%t}`, allowed))
		default:
			s.api.ServeHTTP(w, r)
		}
	}))
	t.Cleanup(server.Close)
	return server.URL
}

// A viewer reads the name of a pod only if the viewer may list the pods of its namespace, and if the page shows that namespace.
func TestPage_podsOfOtherNamespace_areNamedOnlyToThoseWhoMayListThem(t *testing.T) {
	everywhere, shopOnly := []string{""}, []string{"shop"}
	for name, tt := range map[string]struct {
		vpas, pods []string
		flags      []string
		named      bool
		excluded   bool // the page about podfit names the namespace that is left out
	}{
		"all VPAs and all pods":                 {everywhere, everywhere, nil, true, false},
		"all VPAs and the pods of a namespace":  {everywhere, shopOnly, nil, false, false},
		"VPAs of a namespace and all pods":      {shopOnly, everywhere, nil, false, false},
		"all VPAs and pods, namespace excluded": {everywhere, everywhere, []string{"--web-exclude-namespaces=ban*"}, false, true},
		"one namespace, the other one excluded": {shopOnly, shopOnly, []string{"--web-exclude-namespaces=ban*"}, false, false},
	} {
		t.Run(name, func(t *testing.T) {
			s := newBankNextToShop(t)
			url := reviewing(t, s, map[string][]string{"verticalpodautoscalers": tt.vpas, "pods": tt.pods})
			root := servePage(t, url, append(tt.flags, "--web-auth=token")...)
			read := func(path string) string { return readPage(t, root+path, "viewer") }
			const cart = "workloads/shop/Deployment/cart?explain=1"
			kubetest.Eventually(t, "the cluster is read", func() bool {
				return !strings.Contains(read("about"), "still reading") && strings.Contains(read(cart+"&format=json"), "within their bounds")
			})
			for _, path := range []string{cart, cart + "&format=json", cart + "&save=1"} {
				if named := strings.Contains(read(path), "bank/secret-merger-5c-0"); named != tt.named {
					t.Errorf("%s names the pod: %t, want %t", path, named, tt.named)
				}
			}
			for _, path := range []string{"", "workloads", "nodes", "activity", "profiles", "about"} {
				for _, form := range []string{"", "?format=json", "?save=1"} {
					if !tt.named && strings.Contains(read(path+form), "bank") {
						t.Errorf("%s%s names the other namespace", path, form)
					}
				}
			}
			if unread := strings.Contains(read(""), "The stored usage could not be read"); unread != (tt.flags == nil) {
				t.Errorf("the page says that stored usage could not be read: %t, want %t", unread, tt.flags == nil)
			}
			text := read("activity")
			if named := strings.Contains(text, "secret-merger-5c-9"); named != tt.named || !strings.Contains(text, "cart-7d9f-9") {
				t.Errorf("the activity names the pod of the other namespace: %t, want %t", named, tt.named)
			}
			if excluded := strings.Contains(read("about"), "ban*"); excluded != tt.excluded {
				t.Errorf("the page about podfit names what is left out: %t, want %t", excluded, tt.excluded)
			}
		})
	}
}
