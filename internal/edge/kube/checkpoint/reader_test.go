// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package checkpoint

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/test/kubetest"
)

const checkpointsOfOne = "/apis/autoscaling.k8s.io/v1/namespaces/shop/verticalpodautoscalercheckpoints"

func newReader(t *testing.T, f *kubetest.FakeAPI) *Reader {
	t.Helper()
	r := NewReader(clientsOf(f))
	return r
}

// historyReply returns a UsageHistory of a Deployment as the API server sends it.
func historyReply(name, target string) string {
	return fmt.Sprintf(`{"apiVersion":"podfit.dev/v1alpha1","kind":"UsageHistory","metadata":{"namespace":"shop","name":%q,"resourceVersion":"7"},
		"spec":{"target":{"group":"apps","kind":"Deployment","name":%q}},
		"status":{"histories":[{"container":"app","updated":"2026-03-01T12:00:00Z","format":"adaptive/1","data":"AQID"}]}}`, name, target)
}

func TestReader_histories_areReadByNameOfWorkload(t *testing.T) {
	hashed := hashedHistoryName(deployment("web"))
	for name, c := range map[string]struct {
		replies map[string]string
		want    int
		failed  string
	}{
		"usual name":                   {map[string]string{"deployment-web": historyReply("deployment-web", "web")}, 1, ""},
		"none":                         {nil, 0, ""},
		"usual name of other workload": {map[string]string{"deployment-web": historyReply("deployment-web", "other"), hashed: historyReply(hashed, "web")}, 1, ""},
		"both of other workloads":      {map[string]string{"deployment-web": historyReply("deployment-web", "other"), hashed: historyReply(hashed, "other")}, 0, ""},
		"not JSON":                     {map[string]string{"deployment-web": "{"}, 0, "read UsageHistory shop/deployment-web"},
		"too large":                    {map[string]string{"deployment-web": strings.Replace(historyReply("deployment-web", "web"), "{", `{"x":"`+strings.Repeat("y", historyTooLarge)+`",`, 1)}, 0, "too large"},
	} {
		f := kubetest.NewFakeAPI(t)
		for object, reply := range c.replies {
			f.Reply("GET "+historiesOfOne+"/"+object, http.StatusOK, reply)
		}
		got, err := newReader(t, f).Histories(t.Context(), deployment("web"))
		if len(got) != c.want || (err != nil) != (c.failed != "") || err != nil && !strings.Contains(err.Error(), c.failed) {
			t.Errorf("%s: %d histories, error %v", name, len(got), err)
		}
		checkReads(t, f)
	}
	f := kubetest.NewFakeAPI(t)
	f.Reply("GET "+historiesOfOne+"/deployment-web", http.StatusForbidden, `{"kind":"Status","reason":"Forbidden","message":"no"}`)
	if _, err := newReader(t, f).Histories(t.Context(), deployment("web")); err == nil {
		t.Error("no error without permission")
	}
}

// checkReads fails the test if a request was not a GET.
func checkReads(t *testing.T, f *kubetest.FakeAPI) {
	t.Helper()
	for _, request := range f.Requests() {
		if !strings.HasPrefix(request, "GET ") {
			t.Errorf("request %s", request)
		}
	}
}

func TestReader_checkpoint_isReadByVPAAndContainer(t *testing.T) {
	key := Key{cluster.Key{Namespace: "shop", Name: "web"}, "app"}
	reply := func(vpa, container, status string) string {
		return fmt.Sprintf(`{"metadata":{"namespace":"shop","name":"x","resourceVersion":"7"},"spec":{"vpaObjectName":%q,"containerName":%q},"status":%s}`, vpa, container, status)
	}
	const status = `{"version":"v3","totalSamplesCount":7,"lastUpdateTime":"2026-03-01T12:00:00Z"}`
	for name, c := range map[string]struct {
		replies map[string]string
		found   bool
		failed  bool
	}{
		"usual name":     {map[string]string{"web-app": reply("web", "app", status)}, true, false},
		"alternate name": {map[string]string{"web-app": reply("web-app", "", status), alternateName(key): reply("web", "app", status)}, true, false},
		"none":           {nil, false, false},
		"not JSON":       {map[string]string{"web-app": "["}, false, true},
		"invalid status": {map[string]string{"web-app": reply("web", "app", `{"totalSamplesCount":"x"}`)}, false, true},
	} {
		f := kubetest.NewFakeAPI(t)
		for object, text := range c.replies {
			f.Reply("GET "+checkpointsOfOne+"/"+object, http.StatusOK, text)
		}
		p, found, err := newReader(t, f).Checkpoint(t.Context(), key)
		if found != c.found || (err != nil) != c.failed || found && p.Samples != 7 {
			t.Errorf("%s: found %v with %d samples, error %v", name, found, p.Samples, err)
		}
		checkReads(t, f)
	}
}
