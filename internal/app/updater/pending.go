// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package updater

import (
	"time"

	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/core/decision"
)

// pendingTimes measures for how long the replacements of evicted pods are Pending: from their creation until the kubelet of their node
// has seen them. Evictions before a restart of the updater are not measured.
type pendingTimes struct {
	newest    map[cluster.Workload]time.Time          // creation of the newest pod of each controller in this pass
	evictions map[cluster.Workload][]measuredEviction // by direct controller, oldest first
	total     int
	measured  map[string]bool // replacements of controllers with evictions, by UID
}

// A measuredEviction is an eviction whose replacement has not been measured yet.
type measuredEviction struct {
	at     time.Time
	newest time.Time // creation of the newest pod of the controller at that time, by the clock of the API server
	by     string    // how the room was found: a value of the label capacity
}

const (
	maxMeasured  = 1000      // evictions that wait for their replacement
	longestShown = time.Hour // a replacement that is Pending for so long is measured with this time
)

// The values of the label capacity.
const (
	capacityFree  = "free"                 // no request for capacity was needed, or none can be created
	capacityHeld  = "placeholder"          // a placeholder pod held the room
	capacityAdded = "provisioning-request" // an autoscaler provided the room for a ProvisioningRequest
)

func (m *pendingTimes) evicted(now time.Time, d *decision.Decision) {
	if m.total >= maxMeasured || d.Pod.Controller.IsZero() {
		return
	}
	if m.evictions == nil {
		m.evictions = map[cluster.Workload][]measuredEviction{}
	}
	c := d.Pod.Controller
	m.evictions[c] = append(m.evictions[c], measuredEviction{at: now, newest: m.newest[c], by: capacityOf(d)})
	m.total++
}

// observe calls report for each replacement that has a node now, or has been Pending for too long. A pod is a replacement if its
// controller created it after the newest pod at the time of the eviction.
func (m *pendingTimes) observe(now time.Time, decisions []decision.Decision, report func(took time.Duration, capacity string)) {
	m.newest = make(map[cluster.Workload]time.Time)
	measured := map[string]bool{}
	for i := range decisions {
		p := decisions[i].Pod
		m.newest[p.Controller] = cluster.Latest(m.newest[p.Controller], p.Created)
		waiting := m.evictions[p.Controller]
		if len(waiting) == 0 || !p.Created.After(waiting[0].newest) {
			continue
		}
		took := p.Started.Sub(p.Created)
		if p.Started.IsZero() {
			took = now.Sub(p.Created)
		}
		switch {
		case m.measured[p.UID]:
			measured[p.UID] = true
		case !p.Started.IsZero() || took >= longestShown:
			measured[p.UID] = true
			report(min(max(0, took), longestShown), waiting[0].by)
			m.drop(p.Controller)
		}
	}
	m.measured = measured
	for controller, waiting := range m.evictions {
		if now.Sub(waiting[0].at) > 2*longestShown {
			m.drop(controller)
		}
	}
}

func (m *pendingTimes) drop(controller cluster.Workload) {
	m.total--
	if m.evictions[controller] = m.evictions[controller][1:]; len(m.evictions[controller]) == 0 {
		delete(m.evictions, controller)
	}
}

// capacityOf returns how the room for the replacement of a pod was found.
func capacityOf(d *decision.Decision) string {
	switch {
	case d.Request == nil || d.Request.State != cluster.RequestProvided:
		return capacityFree
	case d.Request.Kind == cluster.ProvisioningRequest:
		return capacityAdded
	}
	return capacityHeld
}
