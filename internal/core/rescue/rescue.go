// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

// Package rescue tells which OOM-killed containers get more memory at once, and which pods may be deleted for that.
//
// An OOM rescue gives an OOM-killed container more memory at once: in place if the update mode resizes, else by eviction, else by
// deletion. A pod that is down waits at most disruption.Limits.StuckFor for a resize that the kubelet carries out, and not at all for one
// that the kubelet defers or that failed.
//
// A deletion is no eviction, so no PodDisruptionBudget is asked. Therefore a pod is deleted only if all of this holds:
//
//   - a PodDisruptionBudget refused its eviction, and it would not if the OOM-killed pods were ready
//   - it is not ready, and a container was OOM-killed MinKills times in a row
//   - its recommendation has more memory than it was killed with
//   - no data is lost with it but that of an emptyDir, as with each eviction that the update mode allows, and its controller replaces it
//   - no other pod of the workload was deleted whose replacement is not ready yet, unless the replacement has been running for
//     disruption.Limits.StuckFor: the pods of some databases become ready only together
//
// The back-off of deletions grows while the replacements are OOM-killed too (ledger.Ledger.LastDeletion).
//
// The checks that a rescue must pass are those with rescueResize, rescueEvict and deletePod in the table of package plan: it waits for no
// canary and takes nothing from the share of an hour. A freeze stops it. It does not wait for a change window if the container was killed at
// its own limit soon after its start.
package rescue

import (
	"slices"
	"time"

	"podfit.dev/podfit/internal/core/admissible"
	"podfit.dev/podfit/internal/core/change"
	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/core/decision"
	"podfit.dev/podfit/internal/core/need"
	"podfit.dev/podfit/internal/core/policy"
)

// A Mode selects what is done for OOM-killed pods (--oom-rescue).
type Mode uint8

// The rescue modes.
const (
	Off        Mode = iota // upstream's rules only
	ByEviction             // resize or evict at once
	ByDeletion             // also delete pods that a disruption budget does not allow to be evicted
)

// MinKills is the number of consecutive OOM kills after which a pod may be deleted.
const MinKills = 3

// rescuedFor is how long after an OOM kill a pod is rescued.
const rescuedFor = 10 * time.Minute

// noticeablyMore is the factor by which the memory must grow before the next pod is deleted, if the replacement of the last one was
// OOM-killed too.
const noticeablyMore = 1.1

// A Kill is an OOM kill of a container that gets more memory by its recommendation.
type Kill struct {
	Container *cluster.Container
	Lived     time.Duration
	To        int64 // bytes: the new limit of the container or pod, or the new request if there is no limit
	fit       *policy.Fitted
	AtLimit   bool // the container or the pod has a memory limit; otherwise the node was short of memory
}

// KillOf returns the OOM kill within the given time for which the pod would get more memory; false if there is none.
func KillOf(now time.Time, within time.Duration, a *cluster.Autoscaler, p *cluster.Pod, fits []policy.Fitted) (Kill, bool) {
	for i := range fits {
		c := p.Container(fits[i].Container)
		if c == nil || c.Role == cluster.FixedSidecar || c.Exit == nil || !c.Exit.OOM || c.Role != cluster.Init && !policy.Observed(p.ObservedContainers(), c.Name) {
			continue
		}
		if cp := a.Policy(c.Name); cp != nil && cp.Off || !c.Exit.Now && now.Sub(c.Exit.Finished) >= within {
			continue
		}
		kill := Kill{Container: c, fit: &fits[i], Lived: c.Exit.Finished.Sub(c.Exit.Started)}
		var from int64
		from, kill.To, kill.AtLimit = memoryOf(p, c, fits, &fits[i])
		if change.Compare(cluster.Memory, kill.To, from) > 0 {
			return kill, true
		}
	}
	return Kill{}, false
}

// memoryOf returns the amount of memory at which a container is killed, now and with fit, and whether it is a limit. Without a limit of
// the container or the pod it is the request, because the kernel kills the containers first that use more than they request.
func memoryOf(p *cluster.Pod, c *cluster.Container, fits []policy.Fitted, fit *policy.Fitted) (from, to int64, atLimit bool) {
	requests, limits := c.Running()
	if limits.Memory > 0 {
		return limits.Memory, fit.Limits.Or(limits).Memory, true
	}
	if p.PodLevel != nil && p.PodLevel.Limits.Memory > 0 {
		return p.PodLevel.Limits.Memory, admissible.PodLevelOf(p, fits).Limits.Memory, true
	}
	return requests.Memory, fit.Requests.Or(requests).Memory, false
}

// NeedsInit reports whether a pod cannot start because an ordinary init container was OOM-killed, and a replacement gets more memory for it.
func (b *Book) NeedsInit(d *decision.Decision, init []policy.Fitted) bool {
	_, isKilled := KillOf(b.Counter.Now, rescuedFor, d.Autoscaler, d.Pod, init)
	return isKilled && b.Mode != Off && d.Pod.Phase == cluster.Pending && d.Pod.Node != ""
}

// OfInit reports whether a rescue gives more memory to an ordinary init container. Only a replacement of the pod gets it.
func OfInit(d *decision.Decision) bool {
	return d.Rescue && cluster.Find(d.With, func(f *policy.Fitted) bool { return d.Pod.Container(f.Container).Role == cluster.Init }) != nil
}

// Select makes a pod change at once, whatever its age, if a container was OOM-killed and gets more memory. A pod that is in service
// and would be restarted changes at once only if the container was killed soon after its start (--evict-after-oom-threshold), and with
// evictAfterOOMSeconds of the autoscaler that applies to each pod.
func (b *Book) Select(d *decision.Decision) {
	if b.Mode == Off {
		return
	}
	kill, ok := KillOf(b.Counter.Now, rescuedFor, d.Autoscaler, d.Pod, d.With)
	if !ok {
		return
	}
	disrupts := !b.Counter.Health(d.Pod).IsDown() && (!d.Autoscaler.Mode.Resizes() || change.Restarts(d.Pod, d.With))
	own := b.Counter.Need.PerVPAConfig && d.Autoscaler.EvictAfterOOM > 0
	if (disrupts || own) && kill.Lived >= b.Counter.Need.QuickOOMOf(d.Autoscaler) {
		return
	}
	d.Rescue = true
	requests, _ := kill.Container.Running()
	d.Wanted = decision.Reason{
		Code: decision.OutOfMemory, Container: need.NameUnlessSole(d.Pod)(kill.Container.Name), Resource: cluster.Memory,
		From: requests.Memory, To: kill.fit.Requests.Or(requests).Memory, For: kill.Lived,
		Note: need.LimitNote(kill.Container, d.With),
	}
	if !kill.AtLimit {
		d.Wanted.Code = decision.NodeOutOfMemory
	}
	i := slices.IndexFunc(b.Nodes, func(n cluster.Node) bool { return n.Name == d.Pod.Node })
	if i >= 0 && b.Nodes[i].LowMemory {
		d.Wanted.Text = d.Pod.Node
	}
}

// stuck are the reasons for which a pod that is down does not wait for its resize.
var stuck = map[cluster.ResizeState]decision.ReasonCode{
	cluster.ResizeDeferred: decision.ResizeWaiting, cluster.ResizeInfeasible: decision.ResizeImpossible,
	cluster.ResizeError: decision.ResizeFailed, cluster.ResizeUnknown: decision.ResizeUnclear,
}

// Stuck returns why the rescue of a pod that is down does not wait for its resize, which waits or has failed, and false if the pod may not be
// evicted instead.
func (b *Book) Stuck(d *decision.Decision) (decision.Reason, bool) {
	r := d.Pod.Resize
	if !d.Rescue || r == nil || r.Problem == cluster.MemoryInUse || !d.Autoscaler.Mode.Evicts() || !b.Counter.Health(d.Pod).IsDown() {
		return decision.Reason{}, false
	}
	code, isStuck := stuck[r.State]
	return decision.Reason{Code: code, Text: r.Message}, isStuck
}

// WaitsUntil returns when the rescue of a pod that is down goes on to its eviction, because the kubelet has not completed its resize
// within disruption.Limits.StuckFor. The time counts from when the kubelet was asked, as it reports in the condition of the pod, or when podfit
// asked, if it reports nothing. It returns the zero time if the pod does not wait for that.
func (b *Book) WaitsUntil(d *decision.Decision) time.Time {
	p := d.Pod
	var began time.Time
	switch {
	case p.Resize != nil && p.Resize.State == cluster.ResizeInProgress:
		began = p.Resize.Since
	case !p.IsResizing() && change.IsAsked(p, d.With) && !change.SameSize(p, d.With):
		began = b.Counter.Ledger.LastResize(p)
	}
	if !d.Rescue || !b.Counter.Health(p).IsDown() || began.IsZero() {
		return time.Time{}
	}
	return began.Add(b.Counter.Limits.StuckFor)
}
