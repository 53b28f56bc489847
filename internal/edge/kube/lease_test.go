// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package kube

import (
	"testing"
	"time"

	"podfit.dev/podfit/test/kubetest"
)

func TestLease_createdOrRenewed_isFreshUntilTimeout(t *testing.T) {
	const path = "/apis/coordination.k8s.io/v1/leases"
	now := kubetest.At(t, "2026-03-01T12:00:00Z")
	for name, tc := range map[string]struct {
		lease string
		want  bool
	}{
		"does not exist":   {"", false},
		"just created":     {`"creationTimestamp":"2026-03-01T11:59:30Z"},"spec":{}`, true},
		"never renewed":    {`"creationTimestamp":"2026-03-01T11:00:00Z"},"spec":{}`, false},
		"renewed":          {`"creationTimestamp":"2026-03-01T11:00:00Z"},"spec":{"renewTime":"2026-03-01T11:59:30.000000Z"}`, true},
		"renewed long ago": {`"creationTimestamp":"2026-03-01T11:00:00Z"},"spec":{"renewTime":"2026-03-01T11:59:00.000000Z"}`, false},
	} {
		t.Run(name, func(t *testing.T) {
			f := kubetest.NewFakeAPI(t)
			if tc.lease != "" {
				f.Apply(path, `{"apiVersion":"coordination.k8s.io/v1","kind":"Lease","metadata":{"namespace":"kube-system","name":"vpa-admission-controller",`+tc.lease+`}`)
			}
			got, err := NewLease(clientsOf(f), "kube-system", "vpa-admission-controller").IsFresh(t.Context(), time.Minute, now)
			if got != tc.want || err != nil {
				t.Errorf("fresh %t, want %t; error %v", got, tc.want, err)
			}
		})
	}
}

// The clock of the admission controller may be ahead. Only further renewals show that it still runs.
func TestLease_renewTimeInTheFuture_isFreshWhileItChanges(t *testing.T) {
	now := kubetest.At(t, "2026-03-01T12:00:00Z")
	const minute = time.Minute
	type read struct {
		after time.Duration // since noon
		ahead time.Duration // of the renewTime, since noon
		want  bool
	}
	for name, tt := range map[string]struct {
		created string
		reads   []read
	}{
		"a day ahead, never renewed again": {"11:00:00", []read{
			{0, 24 * time.Hour, true}, {minute / 2, 24 * time.Hour, true}, {minute, 24 * time.Hour, false}, {23 * time.Hour, 24 * time.Hour, false},
		}},
		"a day ahead, renewed again": {"11:00:00", []read{
			{0, 24 * time.Hour, true}, {minute, 24*time.Hour + minute, true}, {2 * minute, 24*time.Hour + minute, false}, {3 * minute, 24*time.Hour + 3*minute, true},
		}},
		"a day ahead, then the clock is right": {"11:00:00", []read{
			{0, 24 * time.Hour, true}, {minute, 24 * time.Hour, false}, {2 * minute, 2 * minute, true}, {3 * minute, 2 * minute, false},
		}},
		"a few seconds ahead":       {"11:00:00", []read{{0, 5 * time.Second, true}, {minute, 5 * time.Second, true}, {minute + 6*time.Second, 5 * time.Second, false}}},
		"created ahead and renewed": {"22:00:00", []read{{0, 0, true}, {10 * minute, 10 * minute, true}, {11 * minute, 10 * minute, false}}},
	} {
		f := kubetest.NewFakeAPI(t)
		l := NewLease(clientsOf(f), "kube-system", "l")
		for i, r := range tt.reads {
			f.Apply("/apis/coordination.k8s.io/v1/leases", `{"apiVersion":"coordination.k8s.io/v1","kind":"Lease","metadata":{"namespace":"kube-system","name":"l",`+
				`"creationTimestamp":"2026-03-01T`+tt.created+`Z"},"spec":{"renewTime":"`+now.Add(r.ahead).UTC().Format("2006-01-02T15:04:05.000000Z07:00")+`"}}`)
			if fresh, err := l.IsFresh(t.Context(), time.Minute, now.Add(r.after)); fresh != r.want || err != nil {
				t.Errorf("%s, read %d: fresh %t, want %t; error %v", name, i+1, fresh, r.want, err)
			}
		}
	}
}

func TestLease_forbidden_returnsErrorAndNotFresh(t *testing.T) {
	f := kubetest.NewFakeAPI(t)
	f.Reply("GET /apis/coordination.k8s.io/v1/namespaces/kube-system/leases/l", 403, `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Forbidden","code":403}`)
	if fresh, err := NewLease(clientsOf(f), "kube-system", "l").IsFresh(t.Context(), time.Minute, time.Now()); fresh || err == nil {
		t.Errorf("fresh %t, error %v", fresh, err)
	}
}

func TestLease_renewWithConflicts_returnsNoError(t *testing.T) {
	const path = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases"
	f := kubetest.NewFakeAPI(t)
	l := NewLease(clientsOf(f), "kube-system", "l")
	now := kubetest.At(t, "2026-03-01T12:00:00Z")
	f.Reply("POST "+path, 409, `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"AlreadyExists","code":409}`)
	if err := l.Renew(t.Context(), "me", now); err != nil { // another replica created it after the GET
		t.Fatal(err)
	}
	f.Apply("/apis/coordination.k8s.io/v1/leases", `{"apiVersion":"coordination.k8s.io/v1","kind":"Lease","metadata":{"namespace":"kube-system","name":"l"},"spec":{}}`)
	f.Reply("PUT "+path+"/l", 409, `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Conflict","code":409}`)
	if err := l.Renew(t.Context(), "me", now); err != nil { // another replica renewed it after the GET
		t.Fatal(err)
	}
	want := []string{"GET " + path + "/l", "POST " + path, "GET " + path + "/l", "PUT " + path + "/l"}
	if got := f.Requests(); len(got) != len(want) || got[1] != want[1] || got[3] != want[3] {
		t.Errorf("requests %v, want %v", got, want)
	}
}
