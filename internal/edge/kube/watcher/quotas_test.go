// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package watcher

import (
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"

	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/test/kubetest"
)

const quotasPath = "/api/v1/resourcequotas"

func quotaJSON(name, used string) string {
	return `{"metadata":{"namespace":"shop","name":"` + name + `"},"status":{"hard":{"cpu":"4"},"used":{"cpu":"` + used + `"}}}`
}

func TestWorld_quotaChanges_unusedAmountIsUpdated(t *testing.T) {
	f := kubetest.NewFakeAPI(t)
	f.ApplyShop()
	f.Apply(quotasPath, quotaJSON("a", "1"))
	w := startWorld(t, f, Options{Quotas: true})
	unused := func() (out []int64) {
		if qs := w.Quotas("shop"); qs != nil {
			for _, q := range qs.List {
				out = append(out, q.Left.Requests.CPU)
			}
		}
		return out
	}
	if got := unused(); !slices.Equal(got, []int64{3000}) {
		t.Errorf("unused CPU %v millicores, want 3000", got)
	}
	if w.Quotas("other") != nil || len(w.quotaSets) > 1 {
		t.Error("a namespace without quotas has an entry")
	}
	f.Apply(quotasPath, quotaJSON("a", "2"))
	f.Apply(quotasPath, quotaJSON("b", "4"))
	kubetest.Eventually(t, "the new usage is applied", func() bool { return slices.Equal(unused(), []int64{2000, 0}) })
}

func TestWorld_tooManyQuotas_areNotEvaluated(t *testing.T) {
	f := kubetest.NewFakeAPI(t)
	f.ApplyShop()
	for i := range cluster.MostQuotas + 1 {
		f.Apply(quotasPath, quotaJSON(fmt.Sprintf("q%d", i), "1"))
	}
	w := startWorld(t, f, Options{Quotas: true})
	if q := w.Quotas("shop"); q == nil || !q.TooMany || len(q.List) != 0 {
		t.Errorf("got %+v", q)
	}
}

// Upstream's roles grant no right to read ResourceQuotas. podfit starts without them.
func TestWorld_quotasForbidden_runsWithoutThem(t *testing.T) {
	f := kubetest.NewFakeAPI(t)
	f.ApplyShop()
	f.Apply(quotasPath, quotaJSON("a", "1"))
	f.Reply("GET "+quotasPath, 403, forbidden)
	var text logText
	w := startWorld(t, f, Options{Quotas: true, Log: slog.New(slog.NewTextHandler(&text, nil))})
	if !w.Synced() || w.Quotas("shop") != nil {
		t.Errorf("synced %t, quotas %+v", w.Synced(), w.Quotas("shop"))
	}
	kubetest.Eventually(t, "the list is retried", func() bool { return f.Refusals("GET "+quotasPath) > 2 })
	if n := strings.Count(text.String(), "podfit runs without it\" resource=resourcequotas impact="); n != 1 {
		t.Errorf("logged %d times, want 1:\n%s", n, text.String())
	}
	f.ForgetReply("GET " + quotasPath)
	kubetest.Eventually(t, "quotas are listed once podfit has the right", func() bool { return w.Quotas("shop") != nil })
}
