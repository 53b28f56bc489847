// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package review

import (
	"fmt"
	"slices"
	"time"

	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/core/runtimeguard"
	"podfit.dev/podfit/internal/core/wording"
)

// A Severity ranks risk and waste.
type Severity uint8

// The severities. Waste has no medium.
const (
	Harmless Severity = iota
	SeverityLow
	SeverityMedium
	SeverityHigh
)

// String returns the name of the severity.
func (s Severity) String() string { return [...]string{"none", "low", "medium", "high"}[s] }

// The thresholds of risk.
const (
	nearLimit     = 0.95     // of the memory limit
	muchThrottled = 0.25     // of CPU periods
	farBelow      = 0.10     // of the target
	leastCPU      = 50       // millicores
	leastMemory   = 64 << 20 // bytes
)

// A Finding is a reason why the present requests and limits are a risk.
type Finding struct {
	Kind     FindingKind
	Severity Severity
	Resource cluster.Resource
	Count    int       // kills, or days near the limit
	Since    time.Time // the first kill
	Share    float64   // of the limit, of CPU periods, or of the target by which the request is too low
	Amount   int64     // the CPU request in millicores that a JVM misreads
	Proposed bool      // it is the recommended request, and not the present one
}

// A FindingKind is the kind of a Finding.
type FindingKind uint8

// The kinds of findings, the most severe first.
const (
	Killed      FindingKind = iota // the container was OOM-killed in the window
	NearLimit                      // the memory peak of the last days was close to the limit
	Throttling                     // the container was throttled in many CPU periods
	NoRequest                      // it has no request
	BelowTarget                    // its request is far below the target
	AllCores                       // a JVM takes its request for none, and so uses all cores of the node
)

// String returns a name for programs.
func (k FindingKind) String() string {
	return [...]string{"OOMKilled", "PeakNearLimit", "Throttled", "NoRequest", "RequestBelowTarget", "JVMUsesAllCores"}[k]
}

// Text describes the finding in a few words.
func (f *Finding) Text(now time.Time) string {
	switch f.Kind {
	case Killed:
		return fmt.Sprintf("killed for memory at least %d× since %s", f.Count, day(f.Since, now))
	case NearLimit:
		return fmt.Sprintf("peak %.0f %% of its limit on %s", 100*f.Share, wording.Count(f.Count, "day"))
	case Throttling:
		return fmt.Sprintf("throttled in %.0f %% of CPU periods", 100*f.Share)
	case NoRequest:
		return fmt.Sprintf("no %s request", wording.Name(f.Resource))
	case AllCores:
		if f.Proposed {
			return fmt.Sprintf("◆ JVM: with %s it sees all cores of the node (explain)", cores(f.Amount))
		}
		return fmt.Sprintf("◆ JVM and %s: sees all cores of the node (explain)", cores(f.Amount))
	default:
		return fmt.Sprintf("%s request %.0f %% below need", wording.Name(f.Resource), 100*f.Share)
	}
}

// cores returns an amount of CPU in a text.
func cores(millicores int64) string {
	if millicores == 1000 {
		return "1 core"
	}
	return fmt.Sprintf("%dm", millicores)
}

// day returns a short form of a time in the past: the time of day, the weekday, or the date.
func day(at, now time.Time) string {
	switch ago := now.Sub(at); {
	case ago < 20*time.Hour:
		return at.UTC().Format("15:04 UTC")
	case ago < 6*24*time.Hour:
		return at.UTC().Format("Mon")
	default:
		return at.UTC().Format("2 Jan")
	}
}

// findings returns the risks of a subject, the most severe first. The target is what podfit would request: for a kept request it is the
// recommendation, which shows whether the kept one is too low.
func findings(s *Subject, target cluster.Resources, confidence Confidence, pods int) []Finding {
	var out []Finding
	e := s.Evidence
	if e.Kills > 0 {
		out = append(out, Finding{Kind: Killed, Severity: SeverityHigh, Resource: cluster.Memory, Count: e.Kills, Since: e.KilledFrom})
	}
	if limit := s.Limits.Memory; limit > 0 && float64(e.Peak()) > nearLimit*float64(limit) {
		f := Finding{Kind: NearLimit, Severity: SeverityHigh, Resource: cluster.Memory, Share: float64(e.Peak()) / float64(limit)}
		for _, p := range e.DayPeaks {
			if float64(p) > nearLimit*float64(limit) {
				f.Count++
			}
		}
		out = append(out, f)
	}
	if e.ThrottledKnown && e.Throttled > muchThrottled {
		out = append(out, Finding{Kind: Throttling, Severity: SeverityHigh, Resource: cluster.CPU, Share: e.Throttled})
	}
	if pods == 0 {
		return out // only usage is known
	}
	for _, res := range cluster.All {
		request := s.Requests.Amount(res)
		wanted, ok := target.Get(res)
		least := cluster.Pick[int64](res, leastCPU, leastMemory)
		switch short := wanted - request; {
		case request == 0 && s.PodLevel.Has(res):
		case request == 0:
			out = append(out, Finding{Kind: NoRequest, Severity: SeverityMedium, Resource: res})
		case ok && confidence > None && short > least && float64(short) > farBelow*float64(wanted):
			out = append(out, Finding{Kind: BelowTarget, Severity: SeverityMedium, Resource: res, Share: float64(short) / float64(wanted)})
		}
	}
	if f, misread := allCores(s, target, confidence); misread {
		out = append(out, f)
	}
	return out
}

// allCores returns the finding for a JVM whose CPU request is in a range that it may take for "no request was set", or would be with the
// recommendation. With a CPU limit, it takes the number of processors from that.
func allCores(s *Subject, target cluster.Resources, confidence Confidence) (Finding, bool) {
	if !s.JVM || s.Limits.CPU > 0 {
		return Finding{}, false
	}
	f := Finding{Kind: AllCores, Severity: SeverityMedium, Resource: cluster.CPU, Amount: s.Requests.CPU}
	if _, misread := runtimeguard.Band(f.Amount); misread {
		return f, true
	}
	f.Amount = target.CPU
	f.Proposed = true
	_, misread := runtimeguard.Band(f.Amount)
	return f, misread && confidence > None && !s.KeptFor(cluster.CPU).IsKept()
}

// KeptFor returns why the request of a resource is not changed.
func (s *Subject) KeptFor(res cluster.Resource) Kept {
	return s.Kept[slices.Index(cluster.All[:], res)]
}

// PodLevelOf returns the resources that a pod requests for all of its containers together.
func PodLevelOf(p *cluster.Pod) cluster.Set {
	if p.PodLevel == nil {
		return 0
	}
	return p.PodLevel.Requests.Has
}

// IsJVM reports whether a container runs a JVM that may take its number of processors from the CPU request: neither its options nor a CPU limit
// of the pod set the number.
func IsJVM(p *cluster.Pod, c *cluster.Container) bool {
	r := p.Runtime(c)
	return r != nil && r.Kind == cluster.JVM && !r.CPUCountSet && (p.PodLevel == nil || p.PodLevel.Limits.Amount(cluster.CPU) <= 0)
}
