// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package overview

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/core/wording"
)

// A Condition says whether a part of podfit works.
type Condition string

// The conditions.
const (
	NotKnown Condition = "unknown"
	Healthy  Condition = "healthy"
	Late     Condition = "late"    // it works, but not as it should
	Failing  Condition = "failing" // it does not work
	Frozen   Condition = "frozen"  // it works, and a person has stopped all changes
)

// A Part is the health of a part of podfit.
type Part struct {
	Name      string    `json:"name"`
	Condition Condition `json:"condition"`
	Text      string    `json:"text,omitempty"` // why, in one sentence
}

// A Loop is a loop of this process.
type Loop struct {
	Name           string
	Active, Passed time.Time     // last activity, and end of the last complete pass; zero if there was none
	Window         time.Duration // without activity for longer, the loop does not work
}

// A Lease is a lease that a part of podfit renews.
type Lease struct {
	Name     string
	Found    bool
	Holder   string
	Renewed  time.Time
	Duration time.Duration // after it, another replica may take the lease over
}

func (l *Lease) fresh(now time.Time) bool {
	return l.Found && l.Holder != "" && now.Sub(l.Renewed) < max(4*l.Duration, time.Minute)
}

// A Webhook is the registration of podfit's webhook.
type Webhook struct {
	Known      bool   // the registration was read
	Problem    string // why it or the lease was not read; "" if both were
	Registered bool
	Until      time.Time // end of the certificate authorities that the API server trusts; zero if it trusts its own
	Lease      Lease     // that the webhook renews
}

// Facts are what is known about podfit itself.
type Facts struct {
	Now     time.Time
	Read    time.Time // when leases and the webhook were read; zero means Now. Their age counts from then, because they are renewed since
	Leading bool      // this process is the leader, or needs none
	Loops   []Loop    // of this process
	Leases  []Lease
	Problem string         // why leases are not known; "" if they are
	Webhook Webhook        // of the admission controller
	Freeze  cluster.Freeze // of the whole cluster; off if it is not known
	Stored  time.Time      // when usage was last stored in the cluster; zero if it is not known
	Looked  time.Time      // when Stored was read
}

// The bounds of health.
const (
	storedWithin = 15 * time.Minute    // the recommender stores the usage of some containers in each pass
	expiresSoon  = 14 * 24 * time.Hour // a certificate authority is renewed earlier
)

// leaseNames are the leases of leader election of a part, in the defaults of podfit and upstream.
var leaseNames = map[string][]string{
	"recommender": {"podfit", "vpa-recommender-lease", "vpa-recommender"},
	"updater":     {"podfit", "vpa-updater", "vpa-updater-lease"},
}

// ElectionLeases are the names of the leases of leader election.
func ElectionLeases() []string {
	all := slices.Concat(leaseNames["recommender"], leaseNames["updater"])
	slices.Sort(all)
	return slices.Compact(all)
}

// HealthOf returns the health of the parts of podfit.
func HealthOf(f *Facts) []Part {
	f.Read = cmp.Or(f.Read, f.Now)
	updater := f.job("updater")
	if f.Freeze.On && updater.Condition == Healthy {
		reason := ""
		if f.Freeze.Reason != "" {
			reason = " (" + f.Freeze.Reason + ")"
		}
		updater.Condition, updater.Text = Frozen, fmt.Sprintf("ConfigMap %s stops all changes of running pods%s, unless --freeze-configmap names another one. %s", f.Freeze.By, reason, updater.Text)
	}
	return []Part{f.job("recommender"), updater, f.webhook()}
}

// job returns the health of a loop that runs in the leader.
func (f *Facts) job(name string) Part {
	if at := slices.IndexFunc(f.Loops, func(l Loop) bool { return l.Name == name }); at >= 0 && f.Leading {
		return f.loop(f.Loops[at])
	}
	var held *Lease
	for _, l := range f.Leases {
		if l.Found && slices.Contains(leaseNames[name], l.Name) && (held == nil || l.Renewed.After(held.Renewed)) {
			held = &l
		}
	}
	switch {
	case held != nil && held.fresh(f.Read):
		return Part{name, Healthy, fmt.Sprintf("%s leads and renewed its lease %s ago.", held.Holder, elapsed(f.Read.Sub(held.Renewed)))}
	case name == "recommender" && !f.Stored.IsZero() && f.Looked.Sub(f.Stored) < storedWithin:
		return Part{name, Healthy, f.stored()}
	case held != nil:
		return Part{name, Failing, fmt.Sprintf("The lease %s was last renewed %s ago. No replica leads.", held.Name, elapsed(f.Read.Sub(held.Renewed)))}
	case name == "recommender" && !f.Stored.IsZero():
		return Part{name, Failing, f.stored()}
	}
	return Part{name, NotKnown, cmp.Or(f.Problem, "There is no lease of it. Without leader election there is none.")}
}

// stored describes when usage was stored.
func (f *Facts) stored() string {
	const form = "2 Jan, 15:04"
	return fmt.Sprintf("Usage was last stored on %s UTC, as of %s UTC.", f.Stored.UTC().Format(form), f.Looked.UTC().Format(form))
}

func (f *Facts) loop(l Loop) Part {
	switch {
	case l.Active.IsZero():
		return Part{l.Name, Late, "It has not started a pass yet."}
	case f.Now.Sub(l.Active) > l.Window:
		return Part{l.Name, Failing, fmt.Sprintf("It has done nothing for %s.", elapsed(f.Now.Sub(l.Active)))}
	case l.Passed.IsZero():
		return Part{l.Name, Late, "No pass was complete yet. The log has the cause."}
	case f.Now.Sub(l.Passed) > l.Window:
		return Part{l.Name, Late, fmt.Sprintf("The last good pass was %s ago. The log has the cause.", elapsed(f.Now.Sub(l.Passed)))}
	}
	return Part{l.Name, Healthy, fmt.Sprintf("This process leads. The last good pass was %s ago.", elapsed(f.Now.Sub(l.Passed)))}
}

// webhook returns the health of the admission controller.
func (f *Facts) webhook() Part {
	const name = "webhook"
	w := &f.Webhook
	until := ""
	if !w.Until.IsZero() {
		until = " Its certificate authority is valid until " + w.Until.UTC().Format("2 Jan 2006") + "."
	}
	switch {
	case !w.Known:
		return Part{name, NotKnown, w.Problem}
	case !w.Registered:
		return Part{name, Failing, "It is not registered, so new pods keep their own requests."}
	case !w.Until.IsZero() && !f.Now.Before(w.Until):
		return Part{name, Failing, "The certificate authority of its registration expired on " + w.Until.UTC().Format("2 Jan 2006") + ", so the API server cannot call it."}
	case w.Lease.Found && !w.Lease.fresh(f.Read):
		return Part{name, Failing, fmt.Sprintf("It is registered, but last renewed its lease %s ago.%s", elapsed(f.Read.Sub(w.Lease.Renewed)), until)}
	case !w.Until.IsZero() && w.Until.Sub(f.Now) < expiresSoon:
		return Part{name, Late, "It is registered." + until}
	case !w.Lease.Found && w.Problem != "":
		return Part{name, NotKnown, "It is registered. Whether it works is not known: " + w.Problem + until}
	case !w.Lease.Found:
		return Part{name, Healthy, "It is registered." + until}
	}
	return Part{name, Healthy, fmt.Sprintf("It is registered and renewed its lease %s ago.%s", elapsed(f.Read.Sub(w.Lease.Renewed)), until)}
}

func elapsed(d time.Duration) string { return wording.Elapsed(d, "days") }
