// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"context"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"
)

func TestFlags_exportRecommendations_areServedAsMetrics(t *testing.T) {
	const name = "kube_customresource_verticalpodautoscaler_status_recommendation_containerrecommendations_target"
	const want = name + `{container="app",namespace="shop",resource="cpu",target_api_version="apps/v1",target_kind="Deployment",target_name="cart",unit="core",verticalpodautoscaler="cart"} `
	for _, flags := range [][]string{{"--export-recommendations"}, {}} {
		page := pageOfRecommender(t, name, flags)
		if exported := len(flags) > 0; strings.Contains(page, want) != exported || strings.Contains(page, name) != exported {
			t.Errorf("flags %v: the recommendation is exported: %v, want %v, in a page of %d bytes", flags, !exported, exported, len(page))
		}
	}
}

// pageOfRecommender runs podfit recommender for three passes or, with flags, until its page /metrics contains a text. It returns the page.
func pageOfRecommender(t *testing.T, text string, flags []string) (page string) {
	s := newShop(t, 1)
	s.apply("/apis/metrics.k8s.io/v1beta1/pods", `{"metadata":{"namespace":"shop","name":"cart-7d9f-0"},"timestamp":%q,"window":"30s",
		"containers":[{"name":"app","usage":{"cpu":"300m","memory":"500Mi"}}]}`, ago(10*time.Second))
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	address := freeAddress(t)
	args := append([]string{"podfit", "recommender", "--kubeconfig=" + s.kubeconfig(), "--address=" + address, "--recommender-interval=100ms"}, flags...)
	ended := make(chan int, 1)
	go func() { ended <- Main(ctx, args, Streams{In: strings.NewReader(""), Out: io.Discard, Err: io.Discard}) }()
	for ctx.Err() == nil && (page == "" || s.passes() < 3 || len(flags) > 0 && !strings.Contains(page, text)) {
		time.Sleep(20 * time.Millisecond)
		if p := scrape(ctx, address); p != "" {
			page = p
		}
	}
	cancel()
	if code := <-ended; code != exitOK {
		t.Errorf("exit code %d", code)
	}
	return page
}

// scrape returns the page /metrics, or "" if the process does not serve it yet.
func scrape(ctx context.Context, address string) string {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+address+"/metrics", http.NoBody)
	if err != nil {
		return ""
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return ""
	}
	defer response.Body.Close()
	page, err := io.ReadAll(response.Body)
	if err != nil {
		return ""
	}
	return string(page)
}
