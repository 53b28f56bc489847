// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package checkpoint

import (
	"errors"
	"net/http"
	"testing"

	"podfit.dev/podfit/internal/core/usage"
	"podfit.dev/podfit/internal/edge/kube"
	"podfit.dev/podfit/test/kubetest"
)

// Answers of a proxy, not of the API server.
var answersOfAProxy = map[int]string{
	http.StatusNotFound:  "404 page not found",
	http.StatusForbidden: "<html>403 Forbidden</html>",
}

// If the recommender started without the stored histories, it would replace weeks of model state by that of the time since its start.
func TestHistories_proxyAnswersTheFirstList_storedHistoriesAreKept(t *testing.T) {
	for code, answer := range answersOfAProxy {
		f := kubetest.NewFakeAPI(t)
		web := deployment("web")
		mustWrite(t, newHistories(t, f, StorageOptions{}), web, historyFrom("app", 0, "weeks"))
		h := newHistories(t, f, StorageOptions{})
		f.Reply("GET "+historiesPath, code, answer)
		if all, err := h.Load(t.Context()); err == nil {
			t.Errorf("%d: loaded %v without an error, so the recommender starts", code, all)
		}
		f.ForgetReply("GET " + historiesPath)
		if all := loadHistories(t, h); len(all[web]) != 1 || string(all[web][0].Data) != "weeks" {
			t.Errorf("%d: loaded %v, want the stored history", code, all)
		}
	}
}

func TestHistories_proxyAnswersAWrite_othersAreWritten(t *testing.T) {
	for code, answer := range answersOfAProxy {
		f := kubetest.NewFakeAPI(t)
		h := newHistories(t, f, StorageOptions{})
		f.Reply("POST "+historiesOfOne, code, answer)
		_, err := h.Write(t.Context(), deployment("web"), []usage.History{historyFrom("app", 0, "a")})
		if err == nil || errors.Is(err, kube.ErrUnsupported) || errors.Is(err, kube.ErrForbidden) {
			t.Errorf("%d: %v, want an error that names no missing CRD and no missing right", code, err)
		}
		f.ForgetReply("POST " + historiesOfOne)
		if !mustWrite(t, h, deployment("api"), historyFrom("app", 0, "b")) {
			t.Errorf("%d: another history was not written", code)
		}
	}
}

// Without the records, the updater would repeat actions.
func TestStates_proxyForbidsTheFirstList_loadIsRepeated(t *testing.T) {
	f := kubetest.NewFakeAPI(t)
	s := newStates(t, f, StorageOptions{})
	f.Reply("GET "+statesPath, http.StatusForbidden, answersOfAProxy[http.StatusForbidden])
	if _, err := s.Load(t.Context()); err == nil || errors.Is(err, kube.ErrForbidden) {
		t.Errorf("load: %v, want an error that is no missing right", err)
	}
}
