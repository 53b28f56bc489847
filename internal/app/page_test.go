// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"encoding/json"
	"html"
	"log/slog"
	"net/http"
	"reflect"
	"regexp"
	"strings"
	"sync"
	"testing"

	"k8s.io/client-go/rest"

	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/edge/kube"
	"podfit.dev/podfit/test/kubetest"
)

// sent returns the requests so far.
func (s *shop) sent() (out []string) {
	for _, q := range s.api.Log() {
		out = append(out, q.String())
	}
	return out
}

// withoutNote returns an explanation without its last section, which contains the time.
func withoutNote(text string) string {
	text, _, _ = strings.Cut(text, "\nNOTE")
	text = strings.Join(strings.Fields(text), " ") // a date may move words to the next line
	return clockTime.ReplaceAllString(text, "by TIME")
}

// clockTime is when the next pass begins, which is a minute later if a minute ends between two explanations. It has a date if that is tomorrow's.
var clockTime = regexp.MustCompile(`by (\d+ \w+ )?\d\d:\d\d`)

// explanationOf returns an explanation as data, without its times: the page reads the cluster at another time.
func explanationOf(t *testing.T, data []byte) map[string]any {
	t.Helper()
	var out map[string]any
	if err := json.Unmarshal(data, &out); err != nil {
		t.Fatalf("%v: %s", err, data)
	}
	delete(out, "at")
	steps, _ := out["next"].([]any)
	for _, step := range steps {
		if step, ok := step.(map[string]any); ok {
			delete(step, "by")
		}
	}
	return out
}

// The explanation on the page of a workload is that of podfit explain, also as data. However many viewers ask, the cluster is read once.
func TestPage_explanation_equalsThatOfPodfitExplain(t *testing.T) {
	s := newShop(t, 2)
	want := withoutNote(s.text("deploy/cart"))
	wantData := explanationOf(t, []byte(s.text("deploy/cart", "-o", "json")))
	lists := func() (n int) {
		for _, request := range s.sent() {
			if strings.HasPrefix(request, "GET /api/v1/pods?") && !strings.Contains(request, "watch=") {
				n++
			}
		}
		return n
	}
	earlier := lists()
	page := servePage(t, s.api.URL()) + "workloads/shop/Deployment/cart"
	var seen struct{ Explanation json.RawMessage }
	read := func(query string) {
		seen.Explanation = nil
		if err := json.Unmarshal([]byte(readPage(t, page+"?format=json"+query)), &seen); err != nil {
			t.Error(err)
		}
	}
	kubetest.Eventually(t, "the page shows the workload and has listed the pods", func() bool {
		return strings.Contains(readPage(t, page+"?format=json"), `"cart"`) && lists() > earlier
	})
	before, listed := len(s.sent()), lists()
	for range 3 {
		if read(""); seen.Explanation != nil {
			t.Error("data have an explanation that was not asked for")
		}
	}
	var viewers sync.WaitGroup
	for range 10 {
		viewers.Go(func() {
			r, err := http.Get(page + "?explain=1")
			if err != nil {
				t.Error(err)
				return
			}
			_ = r.Body.Close()
		})
	}
	viewers.Wait()
	read("&explain=1")
	if got := explanationOf(t, seen.Explanation); !reflect.DeepEqual(got, wantData) || len(got) < 10 {
		t.Errorf("the page explains\n%v\nwant\n%v", got, wantData)
	}
	whole := html.UnescapeString(readPage(t, page+"?explain=1"))
	if note := `<p class="sub more">Not known: flags of the updater, flags of the recommender.`; !strings.Contains(whole, note) {
		t.Errorf("no %s in\n%s", note, whole)
	}
	_, shown, _ := strings.Cut(whole, `tabindex="0"><pre>`)
	shown, _, _ = strings.Cut(shown, "</pre>")
	if got := withoutNote(shown); got != want || !strings.Contains(got, "NEXT") {
		t.Errorf("the page explains\n%s\nwant\n%s", got, want)
	}
	for _, request := range s.sent()[before:] {
		if !strings.HasPrefix(request, "GET ") {
			t.Errorf("the page sent %s", request)
		}
	}
	if n := lists() - listed; n != 1 {
		t.Errorf("11 viewers listed the pods %d times, want once", n)
	}
}

// For a viewer who may see only one namespace, nothing else is read: neither pods of other namespaces nor nodes.
func TestPage_viewerOfOneNamespace_nothingElseIsRead(t *testing.T) {
	s := newShop(t, 2)
	s.apply(podsPath, `{"metadata":{"namespace":"secret","name":"hidden-0","uid":"h"},"spec":{"nodeName":"n1","containers":[{"name":"app","resources":{"requests":{"cpu":"3"}}}]},"status":{"phase":"Running"}}`)
	clients, err := kube.ClientsFor(&rest.Config{Host: s.api.URL(), QPS: -1})
	if err != nil {
		t.Fatal(err)
	}
	explainer := explainerOfPage(clients, nil, slog.New(slog.DiscardHandler))
	cart := cluster.Workload{Group: "apps", Kind: "Deployment", Namespace: "shop", Name: "cart"}
	explanation, err := explainer.Explain(t.Context(), cart, false)
	text := explanation.Text + string(explanation.Data)
	if err != nil || !strings.Contains(text, "NEXT") || !strings.Contains(text, "Only namespace shop was read") {
		t.Errorf("the explanation is %s (error %v)", text, err)
	}
	for _, request := range s.sent() {
		_, path, _ := strings.Cut(request, " ")
		path, _, _ = strings.Cut(path, "?")
		if strings.Contains(path, "/leases/") {
			t.Errorf("the page read the status lease of another namespace: %s", request)
		}
		for _, private := range []string{"pods", "nodes", "events", "verticalpodautoscalers", "verticalpodautoscalercheckpoints", "usagehistories", "updatestates", "deployments", "replicasets"} {
			if strings.HasSuffix(path, "/"+private) && !strings.Contains(path, "/namespaces/shop/") {
				t.Errorf("the page sent %s", request)
			}
		}
	}
	if strings.Contains(text, "hidden") || strings.Contains(text, "secret") {
		t.Errorf("the explanation contains another namespace:\n%s", text)
	}
	if _, err := explainer.Explain(t.Context(), cluster.Workload{Kind: "Node", Name: "n1", Namespace: "shop"}, false); err == nil {
		t.Error("a workload of kind Node is explained as a node")
	}
}
