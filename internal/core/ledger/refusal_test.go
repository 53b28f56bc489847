// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package ledger

import (
	"testing"
	"time"

	"podfit.dev/podfit/internal/core/attempt"
	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/core/decision"
	"podfit.dev/podfit/internal/core/policy"
)

func TestLedger_longRefusalText_isCut(t *testing.T) {
	l := New()
	p := &cluster.Pod{UID: "1"}
	l.Refused(noon, Attempt{Pod: p, Do: decision.Resize}, decision.Refusal{Text: string(make([]byte, 1<<20))}, 0)
	if r, _ := l.LastFailure(p, decision.Resize); len(r.Text) > attempt.MaxText+8 {
		t.Errorf("%d bytes of the API server's message are kept", len(r.Text))
	}
}

// A pod whose resize failed waits for other pods of its workload, so that its attempts may be far apart. It is evicted when the
// failures have lasted as long as they would have with attempts after each back-off.
func TestIsLasting_resizeKeepsFailing_countsAsRefusedAfterItsMaximumTime(t *testing.T) {
	type attempt struct {
		minute int
		kind   decision.RefusalKind
	}
	tests := map[string]struct {
		attempts []attempt
		want     bool
	}{
		"one attempt":                               {[]attempt{{0, decision.OutcomeIsUnknown}}, false},
		"no answer for 14 minutes":                  {[]attempt{{0, decision.OutcomeIsUnknown}, {14, decision.OutcomeIsUnknown}}, false},
		"no answer for 15 minutes":                  {[]attempt{{0, decision.OutcomeIsUnknown}, {15, decision.OutcomeIsUnknown}}, true},
		"busy for 15 minutes":                       {[]attempt{{0, decision.ServerBusy}, {15, decision.ServerBusy}}, true},
		"webhook fails for two minutes":             {[]attempt{{0, decision.WebhookFailed}, {2, decision.WebhookFailed}}, false},
		"webhook fails for three minutes":           {[]attempt{{0, decision.WebhookFailed}, {3, decision.WebhookFailed}}, true},
		"another refusal between":                   {[]attempt{{0, decision.OutcomeIsUnknown}, {5, decision.DeniedByQuota}, {20, decision.OutcomeIsUnknown}}, false},
		"API server not reached between":            {[]attempt{{0, decision.OutcomeIsUnknown}, {5, decision.NotReached}, {60, decision.OutcomeIsUnknown}}, false},
		"denied, then no answer":                    {[]attempt{{0, decision.Denied}, {16, decision.OutcomeIsUnknown}, {20, decision.OutcomeIsUnknown}}, false},
		"denied, then no answer for 5 minutes":      {[]attempt{{0, decision.Denied}, {16, decision.OutcomeIsUnknown}, {21, decision.OutcomeIsUnknown}}, true},
		"denied, then busy":                         {[]attempt{{0, decision.Denied}, {16, decision.ServerBusy}}, true},
		"denied, then not reached, then busy":       {[]attempt{{0, decision.Denied}, {8, decision.NotReached}, {16, decision.ServerBusy}}, true},
		"denied by a quota, then busy":              {[]attempt{{0, decision.DeniedByQuota}, {16, decision.ServerBusy}}, false},
		"denied, then by a quota, then no answer":   {[]attempt{{0, decision.Denied}, {8, decision.DeniedByQuota}, {16, decision.OutcomeIsUnknown}, {22, decision.OutcomeIsUnknown}}, false},
		"15 minutes after the API server was there": {[]attempt{{0, decision.OutcomeIsUnknown}, {5, decision.NotReached}, {60, decision.ServerBusy}, {75, decision.ServerBusy}}, true},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			l := New()
			d := Attempt{Pod: podsOf(1)[0], Autoscaler: vpa, Do: decision.Resize}
			for _, x := range tt.attempts {
				l.Refused(noon.Add(time.Duration(x.minute)*time.Minute), d, decision.Refusal{Kind: x.kind}, 1)
			}
			if r, _ := l.LastFailure(d.Pod, decision.Resize); r.IsLasting() != tt.want {
				t.Errorf("lasting: %t, want %t", r.IsLasting(), tt.want)
			}
		})
	}
}

// A resize that was denied for long and has no answer now may have been done. The next attempt is made when the watch shows that, and not after
// the back-off of the denied ones.
func TestLedger_deniedResizeHasNoResponse_isTriedAgainWhenTheWatchShowsIt(t *testing.T) {
	l, d := New(), Attempt{Pod: podsOf(1)[0], Autoscaler: vpa, Do: decision.Resize}
	for i, kind := range []decision.RefusalKind{decision.Denied, decision.Denied, decision.Denied, decision.Denied, decision.OutcomeIsUnknown} {
		l.Refused(noon.Add(time.Duration(i)*20*time.Minute), d, decision.Refusal{Kind: kind}, 1)
	}
	last, _ := l.LastFailure(d.Pod, decision.Resize)
	if next := last.Until(delays); !next.Equal(last.At.Add(attempt.WatchDelay)) || last.IsLasting() {
		t.Errorf("the next attempt is at %s, want %s after %s; lasting: %t", next, attempt.WatchDelay, last.At, last.IsLasting())
	}
}

// The attempts that a quota refused had other requests, so they must not delay the attempts after a lost response.
func TestLedger_smallerRequestAfterQuotaRefusalsHasNoResponse_isTriedAgainSoon(t *testing.T) {
	l, p := New(), podsOf(1)[0]
	resize := func(millicores int64) Attempt {
		return Attempt{Pod: p, Autoscaler: vpa, Do: decision.Resize,
			With: []policy.Fitted{{Container: "app", Requests: cluster.Amounts(millicores, 1<<30)}}}
	}
	for i := range 5 {
		l.Refused(noon.Add(time.Duration(i)*time.Minute), resize(3000), decision.Refusal{Kind: decision.DeniedByQuota}, 1)
	}
	at := noon.Add(time.Hour)
	l.Refused(at, resize(300), decision.Refusal{Kind: decision.OutcomeIsUnknown}, 1)
	last, _ := l.LastFailure(p, decision.Resize)
	if next := last.Until(delays); next.After(at.Add(5 * time.Minute)) {
		t.Errorf("the next attempt is at %s, want at most five minutes after %s", next, at)
	}
}

// A quota refuses a resize in full and one by a part, in turn. The part is smaller each time, which is no reason to begin the back-off
// again.
func TestLedger_quotaRefusesPartAndFullInTurn_backOffGrows(t *testing.T) {
	l, p := New(), podsOf(1)[0]
	for i := range 12 {
		full := i%2 == 0
		millicores := int64(500)
		if full {
			millicores = 3000
		}
		l.Refused(noon.Add(time.Duration(i)*time.Hour), Attempt{Pod: p, Autoscaler: vpa, Do: decision.Resize, Part: !full,
			With: []policy.Fitted{{Container: "app", Requests: cluster.Amounts(millicores, 1<<30)}}}, decision.Refusal{Kind: decision.DeniedByQuota}, 1)
	}
	if last, _ := l.LastFailure(p, decision.Resize); last.Attempts != 12 {
		t.Errorf("%d of 12 attempts count", last.Attempts)
	}
}
