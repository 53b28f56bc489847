// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package checkpoint

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"podfit.dev/podfit/internal/core/usage"
	"podfit.dev/podfit/internal/edge/kube"
	"podfit.dev/podfit/test/kubetest"
)

// otherAnswers is an API server that answers writes, or reads, with something else while other is set. It carries the requests out.
type otherAnswers struct {
	*kubetest.FakeAPI
	other bool
	reads bool
}

func newOtherAnswers(t *testing.T, answer string, reads bool) *otherAnswers {
	o := &otherAnswers{FakeAPI: kubetest.NewLocalAPI(t), reads: reads}
	o.Handle(func(w http.ResponseWriter, r *http.Request, q kubetest.Request) bool {
		if !o.other || (q.Verb == http.MethodGet) != reads {
			return false
		}
		o.Answer(httptest.NewRecorder(), r)
		kubetest.Respond(w, http.StatusOK, answer)
		return true
	})
	return o
}

// stores are the clients of all objects of a workload.
type stores struct {
	histories   *Histories
	states      *States
	checkpoints *Checkpoints
}

// write writes all objects, with a content that depends on n.
func (s *stores) write(t *testing.T, n int) [3]error {
	t.Helper()
	_, histories := s.histories.Write(t.Context(), deployment("web"), []usage.History{historyFrom("app", n, "x")})
	state := fullState()
	state.ActingSince = noon.Add(time.Duration(n) * time.Minute)
	_, states := s.states.Write(t.Context(), noon, &state)
	return [3]error{histories, states, s.checkpoints.Write(t.Context(), Key{kubetest.WebKey, "app"}, usage.Checkpoint{Samples: n})}
}

func newStores(t *testing.T, handler http.Handler) *stores {
	t.Helper()
	clients, err := kube.ClientsFor(kubetest.LocalConfig(handler))
	if err != nil {
		t.Fatal(err)
	}
	h := NewHistories(clients, StorageOptions{})
	s := NewStates(clients, StorageOptions{}, "updater-1")
	return &stores{h, s, NewCheckpoints(clients, StorageOptions{})}
}

// An answer with status 200 that is not the object, such as one of a proxy, shows nothing about the object.
func TestStores_answerIsNotTheObject_laterWritesAndDeletionsSucceed(t *testing.T) {
	for name, answer := range map[string]string{
		"empty": "", "no fields": "{}", "null": "null", "text": `"ok"`, "cut off": `{"metadata":{"name":"deploy`, "page": "<html>",
		"status": `{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Success"}`,
	} {
		for _, reads := range []bool{false, true} {
			for _, exists := range []bool{false, true} {
				t.Run(fmt.Sprintf("%s, reads %t, exists %t", name, reads, exists), func(t *testing.T) {
					checkOtherAnswer(t, newOtherAnswers(t, answer, reads), exists)
				})
			}
		}
	}
}

// checkOtherAnswer writes objects that another process has created, or that do not exist, with and without other answers.
func checkOtherAnswer(t *testing.T, o *otherAnswers, exists bool) {
	t.Helper()
	s := newStores(t, o)
	if exists {
		newStores(t, o).write(t, 0)
	}
	o.other = true
	for kind, err := range s.write(t, 1) {
		if err == nil && (exists || !o.reads) {
			t.Errorf("object %d counts as written", kind)
		}
	}
	o.other = false
	s.write(t, 2) // finds conflicts
	for kind, err := range s.write(t, 3) {
		if err != nil {
			t.Errorf("object %d is not written afterwards: %v", kind, err)
		}
	}
	if err := s.states.Delete(t.Context(), deployment("web")); err != nil {
		t.Errorf("delete: %v", err)
	}
	states, histories, checkpoints := o.Keys(statesPath), o.Keys(historiesPath), o.Keys(kubetest.CheckpointsPath)
	if len(states) != 0 || len(histories) != 1 || len(checkpoints) != 1 {
		t.Errorf("left %v, %v, %v; want no state and one of the others", states, histories, checkpoints)
	}
}
