// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package checkpoint

import (
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"podfit.dev/podfit/internal/core/ledger"
	"podfit.dev/podfit/internal/edge/kube"
	"podfit.dev/podfit/test/kubetest"
)

// lostAnswers is an API server that loses the answers to writes while lose is set.
type lostAnswers struct {
	*kubetest.FakeAPI
	lose bool
}

func newLostAnswers(t *testing.T) (*lostAnswers, *States) {
	t.Helper()
	l := &lostAnswers{FakeAPI: kubetest.NewLocalAPI(t)}
	l.Handle(func(w http.ResponseWriter, r *http.Request, q kubetest.Request) bool {
		if q.Verb == http.MethodGet || !l.lose {
			return false
		}
		l.Answer(httptest.NewRecorder(), r)
		http.Error(w, "upstream request timeout", http.StatusGatewayTimeout)
		return true
	})
	clients, err := kube.ClientsFor(kubetest.LocalConfig(l))
	if err != nil {
		t.Fatal(err)
	}
	s := NewStates(clients, StorageOptions{}, "updater-1")
	return l, s
}

func mustLose(t *testing.T, l *lostAnswers, s *States, state ledger.State) {
	t.Helper()
	l.lose = true
	if _, err := s.Write(t.Context(), noon, &state); err == nil {
		t.Fatal("no error, want that the answer is lost")
	}
	l.lose = false
}

// The object was created, so it must be deleted when the workload has no state any more.
func TestStates_answerToCreationIsLost_objectIsDeletedLater(t *testing.T) {
	l, s := newLostAnswers(t)
	mustLose(t, l, s, ledger.State{Workload: deployment("web"), ActingSince: noon})
	if len(l.Keys(statesPath)) != 1 {
		t.Fatal("the object was not created")
	}
	for _, w := range s.Stored() {
		if err := s.Delete(t.Context(), w); err != nil {
			t.Fatal(err)
		}
	}
	if keys := l.Keys(statesPath); len(keys)+len(s.Stored()) != 0 {
		t.Errorf("objects %v, stored %v, want none", keys, s.Stored())
	}
}

// The object shows that the updater acts. The state before that is written again, although it was the last one with an answer.
func TestStates_answerToChangeIsLost_formerStateIsWrittenAgain(t *testing.T) {
	l, s := newLostAnswers(t)
	former := fullState()
	former.ActingSince = time.Time{}
	mustStore(t, s, former)
	acting := former
	acting.ActingSince = noon
	mustLose(t, l, s, acting)
	if !mustStore(t, s, former) || mustStore(t, s, former) {
		t.Error("want one write of the former state")
	}
	if stored := loadStates(t, s)[former.Workload]; !stored.ActingSince.Equal(former.ActingSince) {
		t.Errorf("stored is actingSince %v, want %v", stored.ActingSince, former.ActingSince)
	}
}

// A creation may not have been carried out.
func TestStates_creationIsNotCarriedOut_nextWriteCreates(t *testing.T) {
	l, s := newLostAnswers(t)
	l.Reply("POST "+statesOfOne, http.StatusGatewayTimeout, "upstream request timeout")
	state := fullState()
	if _, err := s.Write(t.Context(), noon, &state); err == nil {
		t.Fatal("no error")
	}
	l.ForgetReply("POST " + statesOfOne)
	if !mustStore(t, s, state) || mustStore(t, s, state) || len(l.Keys(statesPath)) != 1 {
		t.Errorf("objects %v, want one write of one object", l.Keys(statesPath))
	}
}

// Neither the creation nor the object exists when the workload has no state any more.
func TestStates_creationIsNotCarriedOut_nothingIsDeleted(t *testing.T) {
	l, s := newLostAnswers(t)
	l.Reply("POST "+statesOfOne, http.StatusGatewayTimeout, "upstream request timeout")
	state := fullState()
	if _, err := s.Write(t.Context(), noon, &state); err == nil {
		t.Fatal("no error")
	}
	if err := s.Delete(t.Context(), state.Workload); err != nil || len(s.Stored()) != 0 {
		t.Errorf("error %v, stored %v, want none", err, s.Stored())
	}
}
