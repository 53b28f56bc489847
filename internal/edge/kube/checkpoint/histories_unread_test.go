// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package checkpoint

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"testing"

	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/core/usage"
	"podfit.dev/podfit/internal/edge/kube"
	"podfit.dev/podfit/test/kubetest"
)

// listForbidden is the answer of the API server if the right to list is missing.
const listForbidden = `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Forbidden","code":403,` +
	`"message":"usagehistories.podfit.dev is forbidden: User \"vpa\" cannot list resource \"usagehistories\""}`

// Otherwise the model state since the start would replace the stored one of weeks as soon as the right is granted.
func TestHistories_listForbiddenAtStart_storedAreKeptUntilLoaded(t *testing.T) {
	f := kubetest.NewFakeAPI(t)
	web, idle := deployment("web"), deployment("idle")
	for _, w := range []cluster.Workload{web, idle} {
		mustWrite(t, newHistories(t, f, StorageOptions{}), w, historyFrom("app", 0, "weeks"))
	}
	var log bytes.Buffer
	h := newHistories(t, f, StorageOptions{Log: slog.New(slog.NewTextHandler(&log, nil))})
	f.Reply("GET "+historiesPath, http.StatusForbidden, listForbidden)
	if all := loadHistories(t, h); len(all) != 0 || !errors.Is(h.Unread(), kube.ErrForbidden) {
		t.Fatalf("loaded %v, unread: %v", all, h.Unread())
	}
	for _, part := range []string{"level=WARN", "namespace=all", "deploy/10-rbac.yaml", "cannot list resource"} {
		if !strings.Contains(log.String(), part) {
			t.Errorf("the log has no %s: %s", part, &log)
		}
	}
	tryToChange := func(when string) {
		t.Helper()
		if wrote, err := h.Write(t.Context(), web, []usage.History{historyFrom("app", 10, "minutes")}); wrote || !errors.Is(err, kube.ErrForbidden) {
			t.Errorf("%s: written %t, error %v", when, wrote, err)
		}
		if n, err := h.Collect(t.Context(), Needed{Workloads: map[cluster.Workload]bool{web: true}}); n != 0 || err != nil {
			t.Errorf("%s: %d deleted, error %v", when, n, err)
		}
	}
	tryToChange("without the right")
	f.ForgetReply("GET " + historiesPath)
	tryToChange("with the right, before the objects are read")

	for w, hs := range loadHistories(t, h) {
		if len(hs) != 1 || string(hs[0].Data) != "weeks" {
			t.Errorf("%s: loaded %v, want what was stored", w, hs)
		}
	}
	if h.Unread() != nil || !strings.Contains(log.String(), "can be stored again") || strings.Count(log.String(), "level=WARN") != 1 {
		t.Errorf("unread: %v, log: %s", h.Unread(), &log)
	}
	if !mustWrite(t, h, web, historyFrom("app", 20, "weeks and minutes")) {
		t.Error("not written after the objects are read")
	}
}

// The right is removed while the pages are read: the objects of the others are not known.
func TestHistories_secondPageForbidden_nothingIsChanged(t *testing.T) {
	api := kubetest.NewLocalAPI(t)
	forbidden := false // all pages of a list but the first
	api.Handle(func(w http.ResponseWriter, r *http.Request, _ kubetest.Request) bool {
		if !forbidden || r.URL.Query().Get("continue") == "" {
			return false
		}
		kubetest.Respond(w, http.StatusForbidden, listForbidden)
		return true
	})
	clients, err := kube.ClientsFor(kubetest.LocalConfig(api))
	if err != nil {
		t.Fatal(err)
	}
	for i := range storedPageSize + 1 {
		api.Apply(historiesPath, fmt.Sprintf(`{"metadata":{"namespace":"shop","name":"deployment-w%03d"},`+
			`"spec":{"target":{"group":"apps","kind":"Deployment","name":"w%03d"}},"status":{}}`, i, i))
	}
	h := NewHistories(clients, StorageOptions{})
	forbidden = true
	if all := loadHistories(t, h); len(all) != 0 || h.Unread() == nil {
		t.Errorf("loaded %d workloads, unread: %v", len(all), h.Unread())
	}
	forbidden = false
	last := deployment(fmt.Sprintf("w%03d", storedPageSize))
	if wrote, err := h.Write(t.Context(), last, []usage.History{historyFrom("app", 0, "a")}); wrote || err == nil {
		t.Errorf("written %t, error %v", wrote, err)
	}
	if n, err := h.Collect(t.Context(), Needed{}); n != 0 || err != nil {
		t.Errorf("%d deleted, error %v", n, err)
	}
}

// Without checkpoints the recommender does not start, so it overwrites none.
func TestCheckpoints_listForbidden_loadFails(t *testing.T) {
	f := kubetest.NewFakeAPI(t)
	f.Reply("GET "+kubetest.CheckpointsPath, http.StatusForbidden, listForbidden)
	if all, err := NewCheckpoints(clientsOf(f), StorageOptions{}).Load(t.Context()); !errors.Is(err, kube.ErrForbidden) {
		t.Errorf("loaded %v, error %v", all, err)
	}
}
