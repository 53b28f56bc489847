// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package bed

import (
	"reflect"
	"strings"
	"testing"
	"time"

	"podfit.dev/podfit/test/e2e/invariant"
)

const (
	byUpdater = `"user": {"username": "system:serviceaccount:kube-system:vpa-updater",
		"extra": {"authentication.kubernetes.io/credential-id": ["JTI=45884f15-166d-4188-8802-c4dc636cc89c"]}}`
	byRecommender = `"user": {"username": "system:serviceaccount:kube-system:vpa-recommender",
		"extra": {"authentication.kubernetes.io/credential-id": ["JTI=00000000-166d-4188-8802-c4dc636cc89c"]}}`
	byAdmin  = `"user": {"username": "admin", "extra": {"authentication.kubernetes.io/credential-id": ["X509SHA256=c4b94e27"]}}`
	received = `"requestReceivedTimestamp": "2026-11-22T01:44:13.288528Z"`
)

var receivedAt = time.Date(2026, 11, 22, 1, 44, 13, 288528000, time.UTC)

// facts reads lines of an audit log.
func facts(t *testing.T, lines ...string) auditFacts {
	t.Helper()
	f := newAuditFacts()
	for _, line := range lines {
		if err := f.add([]byte(line)); err != nil {
			t.Fatal(err)
		}
	}
	return f
}

func TestAuditFacts_requests_areRead(t *testing.T) {
	for name, c := range map[string]struct {
		line string
		want invariant.Write
	}{
		"an eviction that a budget refuses": {
			`{"verb": "create", ` + byUpdater + `, ` + received + `, "requestURI": "/api/v1/namespaces/shop/pods/web-1/eviction",
				"objectRef": {"resource": "pods", "subresource": "eviction", "namespace": "shop", "name": "web-1"},
				"responseStatus": {"code": 429, "message": "Cannot evict pod"},
				"requestObject": {"deleteOptions": {"preconditions": {"uid": "u-1"}}}}`,
			invariant.Write{
				Verb: "create", User: "vpa-updater", Process: "45884f15", Subresource: "eviction", Name: "web-1", UID: "u-1", Code: 429,
				Message: "Cannot evict pod", Body: `{"deleteOptions": {"preconditions": {"uid": "u-1"}}}`,
			},
		},
		"a resize in a dry run": {
			`{"verb": "patch", ` + byUpdater + `, ` + received + `, "requestURI": "/api/v1/namespaces/shop/pods/web-1/resize?dryRun=All",
				"objectRef": {"resource": "pods", "subresource": "resize", "namespace": "shop", "name": "web-1"}, "responseStatus": {"code": 200},
				"requestObject": {"metadata":{"uid":"u-1"},"spec":{"containers":[{"name":"app","resources":{"requests":{"cpu":"1500m","memory":"1Ki"}}}]}}}`,
			invariant.Write{
				Verb: "patch", User: "vpa-updater", Process: "45884f15", Subresource: "resize", Name: "web-1", UID: "u-1", Code: 200, DryRun: true,
				Requests: map[string]invariant.Amounts{"app": {"cpu": 1500, "memory": 1024}},
				Body:     `{"metadata":{"uid":"u-1"},"spec":{"containers":[{"name":"app","resources":{"requests":{"cpu":"1500m","memory":"1Ki"}}}]}}`,
			},
		},
		"a pod that podfit's webhook changed": {
			`{"verb": "create", ` + byAdmin + `, ` + received + `, "objectRef": {"resource": "pods", "namespace": "shop"},
				"responseStatus": {"code": 403, "message": "exceeded quota"}, "annotations": {
				"mutation.webhook.admission.k8s.io/round_0_index_0": "{\"configuration\":\"vpa-webhook-config\",\"webhook\":\"vpa.k8s.io\",\"mutated\":true}",
				"patch.webhook.admission.k8s.io/round_0_index_0": "{\"configuration\":\"vpa-webhook-config\",\"patch\":[{\"op\":\"add\"}]}",
				"patch.webhook.admission.k8s.io/round_0_index_1": "{\"configuration\":\"another\",\"patch\":[]}"}}`,
			invariant.Write{Verb: "create", User: "admin", Process: "-", Code: 403, Message: "exceeded quota", Shaped: `[{"op":"add"}]`},
		},
		"a pod that another webhook changed": {
			`{"verb": "create", ` + byAdmin + `, ` + received + `, "objectRef": {"resource": "pods", "namespace": "shop"}, "responseStatus": {"code": 201},
				"annotations": {"patch.webhook.admission.k8s.io/round_0_index_1": "{\"configuration\":\"another\",\"patch\":[]}"}}`,
			invariant.Write{Verb: "create", User: "admin", Process: "-", Code: 201},
		},
	} {
		t.Run(name, func(t *testing.T) {
			c.want.At = receivedAt
			c.want.Resource = "pods"
			c.want.Namespace = "shop"
			if got := facts(t, c.line).writes; len(got) != 1 || !reflect.DeepEqual(got[0], c.want) {
				t.Errorf("got\n%+v, want\n%+v", got, c.want)
			}
		})
	}
}

func TestAuditFacts_leaseRequests_nameTheLeader(t *testing.T) {
	f := facts(t, `{"verb": "update", `+byUpdater+`, `+received+`, "objectRef": {"resource": "leases", "namespace": "kube-system", "name": "vpa-updater"},
		"responseStatus": {"code": 200}, "requestObject": {"spec": {"holderIdentity": "one", "leaseDurationSeconds": 15}}}`)
	if want := (invariant.Lease{Holder: "one", For: 15 * time.Second}); f.writes[0].Lease != want {
		t.Errorf("got %+v, want %+v", f.writes[0].Lease, want)
	}
}

func TestAuditFacts_statusUpdates_nameTheLastWriter(t *testing.T) {
	line := func(user, verb, sub, object string) string {
		return `{"verb": "` + verb + `", ` + user + `, ` + received + `, "responseStatus": {"code": 200}, "responseObject": ` + object + `,
			"objectRef": {"resource": "verticalpodautoscalers", "namespace": "shop", "name": "web", "subresource": "` + sub + `"}}`
	}
	const spec = `"metadata": {"namespace": "shop", "name": "web"}, "spec": {"targetRef": {"kind": "Deployment", "name": "web"},
		"updatePolicy": {"minReplicas": 1}, "resourcePolicy": {"containerPolicies": [{"containerName": "*", "minAllowed": {"cpu": "50m"}}]}}`
	const status = `"status": {"recommendation": {"containerRecommendations": [{"containerName": "app", "lowerBound": {"cpu": "100m"},
		"target": {"cpu": "200m"}, "upperBound": {"cpu": "1"}}]}}`
	f := facts(t,
		line(byAdmin, "create", "", "{"+spec+"}"),
		line(byRecommender, "patch", "status", "{"+spec+", "+status+"}"),
		line(byAdmin, "patch", "", "{"+spec+", "+status+"}"),
		strings.Replace(line(byAdmin, "deletecollection", "", "{}"), `"name": "web", `, "", 1),
	)
	base := invariant.Autoscaler{
		At: receivedAt, Namespace: "shop", Name: "web", Target: invariant.Ref{Kind: "Deployment", Namespace: "shop", Name: "web"}, MinReplicas: 1,
	}
	advised := base
	advised.Writer, advised.Recommended = "vpa-recommender", receivedAt
	advised.Ranges = []invariant.Range{{
		Container: "app", Lower: invariant.Amounts{"cpu": 100}, Target: invariant.Amounts{"cpu": 200}, Upper: invariant.Amounts{"cpu": 1000},
		AllowedLeast: invariant.Amounts{"cpu": 50}, AllowedGreatest: invariant.Amounts{},
	}}
	want := []invariant.Autoscaler{base, advised, advised, {At: receivedAt, Namespace: "shop", Name: "web", Gone: true}}
	if !reflect.DeepEqual(f.autoscalers, want) {
		t.Errorf("got\n%+v, want\n%+v", f.autoscalers, want)
	}
}

func TestAuditFacts_readOfAMark_isNotAWrite(t *testing.T) {
	f := facts(t, `{"verb": "get", `+byAdmin+`, "objectRef": {"resource": "configmaps", "namespace": "`+markNamespace+`", "name": "mark-7"}, "responseStatus": {"code": 404}}`)
	if f.mark != "mark-7" || len(f.writes) != 0 {
		t.Errorf("got %+v", f)
	}
}

func TestLines_incompleteLine_isLeftForNextRead(t *testing.T) {
	whole, rest := lines([]byte("one\ntwo\nthr"))
	if len(whole) != 2 || string(whole[1]) != "two" || string(rest) != "thr" {
		t.Errorf("got %q and %q", whole, rest)
	}
}
