// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package actuation

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/edge/kube"
	"podfit.dev/podfit/test/kubetest"
)

func podToDelete() *cluster.Pod {
	p := podToActOn()
	p.Crash = &cluster.Crash{Version: "4711"}
	return p
}

func TestPodWriter_delete_hasUIDAndResourceVersionPreconditions(t *testing.T) {
	f := kubetest.NewFakeAPI(t)
	f.ApplyPod("shop", "web-1-0", "ReplicaSet", "web-1")
	if err := NewPodWriter(clientsOf(f)).Delete(t.Context(), podToDelete()); err != nil {
		t.Fatal(err)
	}
	body := f.Body("DELETE " + webPod) // protobuf; the strings are in it as they are
	for _, want := range []string{"u7", "4711"} {
		if !strings.Contains(body, want) {
			t.Errorf("no %q in the body %q", want, body)
		}
	}
}

func TestPodWriter_deleteOfPodWithUnknownVersion_sendsNothing(t *testing.T) {
	f := kubetest.NewFakeAPI(t)
	if err := NewPodWriter(clientsOf(f)).Delete(t.Context(), podToActOn()); err == nil || len(f.Requests()) != 0 {
		t.Errorf("sent %v, error %v", f.Requests(), err)
	}
}

func TestPodWriter_deleteIsRefused_errorHasTheReason(t *testing.T) {
	status := func(code int, reason, message string) string {
		return fmt.Sprintf(`{"kind":"Status","apiVersion":"v1","status":"Failure","code":%d,"reason":%q,"message":%q}`, code, reason, message)
	}
	for name, c := range map[string]struct {
		code            int
		reason, message string
		want            error
	}{
		"changed since": {409, "Conflict", `Operation cannot be fulfilled on pods "web-1-0": the ResourceVersion in the precondition (4711) does not match the ResourceVersion in record (4712).`, kube.ErrBusy},
		"another pod":   {409, "Conflict", `Precondition failed: UID in precondition: u7, UID in object meta: u8`, kube.ErrConflict},
		"no permission": {403, "Forbidden", `pods "web-1-0" is forbidden: User "x" cannot delete resource "pods"`, kube.ErrForbidden},
		"webhook":       {400, "BadRequest", `admission webhook "guard.example.com" denied the request: protected`, kube.ErrDenied},
		"gone":          {404, "NotFound", `pods "web-1-0" not found`, nil},
	} {
		f := kubetest.NewFakeAPI(t)
		f.Reply("DELETE "+webPod, c.code, status(c.code, c.reason, c.message))
		err := NewPodWriter(clientsOf(f)).Delete(t.Context(), podToDelete())
		if err == nil || c.want != nil && !errors.Is(err, c.want) {
			t.Errorf("%s: %v, want %v", name, err, c.want)
		}
	}
}
