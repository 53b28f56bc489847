// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package web

import (
	"context"
	"encoding/json"
	"html/template"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"time"

	"sigs.k8s.io/yaml"

	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/core/overview"
	"podfit.dev/podfit/internal/core/review"
	"podfit.dev/podfit/internal/core/wording"
	document "podfit.dev/podfit/internal/look/page"
)

type workloadPage struct {
	workloadView
	At          time.Time          `json:"at"`
	Charts      []chartView        `json:"charts"`
	Activity    []entryView        `json:"activity"`
	Resizes     []*overview.Resize `json:"resizes"`
	Commands    []command          `json:"commands"`
	Patch       string             `json:"patch,omitempty"`
	Explanation Explanation        `json:"-"`
	Explained   json.RawMessage    `json:"explanation,omitempty"` // as "podfit explain -o json" prints it
	Unexplained string             `json:"explanationProblem,omitempty"`
	Profiles    []choiceView       `json:"profiles"`
	Unknown     []unknownView      `json:"profilesNotKnown"`
	Trouble     string             `json:"historyProblem,omitempty"` // why the stored usage could not be read
	Unrecorded  string             `json:"prometheusProblem,omitempty"`

	CanExplain bool `json:"-"` // the page has a link to the explanation if it takes too long to be on the page
}

// The bounds of explanations that nobody asked for. Each one reads the pods that the viewer may see.
const (
	explainPatience = 2 * time.Second // how long a page waits
	explainPods     = 2000            // live pods of the cluster: with more, there is only a link
)

// An explained is an explanation, or why there is none.
type explained struct {
	Explanation
	err error
}

// explain begins an explanation. It is nil if nobody waits for one.
func (h *handler) explain(ctx context.Context, w cluster.Workload, v *overview.Viewer, wanted bool) <-chan explained {
	if h.Explain == nil || !wanted {
		return nil
	}
	out := make(chan explained, 1)
	go func() {
		e, err := h.Explain.Explain(ctx, w, v.All)
		out <- explained{e, err}
	}()
	return out
}

// add shows an explanation on the page if it comes in time, or if it was asked for.
func (p *workloadPage) add(from <-chan explained, asked bool) {
	if from == nil {
		return
	}
	var late <-chan time.Time // nil: no time is too late
	if !asked {
		late = time.After(explainPatience)
	}
	select {
	case e := <-from:
		if e.err != nil {
			p.Unexplained = e.err.Error()
			return
		}
		p.Explanation = e.Explanation
		p.Explained = e.Data
		if you := e.Section("You"); you != nil {
			p.Commands = cluster.Each(you.Parts, func(p *document.Section) command { return command{strings.Join(p.Text, " "), p.Command} })
		}
	case <-late:
	}
}

// A choiceView is what a profile would recommend for a container.
type choiceView struct {
	Container string  `json:"container"`
	Profile   string  `json:"profile"`
	Own       bool    `json:"selected,omitempty"`
	Target    amounts `json:"target"`
	Above     int     `json:"daysAboveMemory"`   // days whose memory peak was above the target
	Days      int     `json:"daysOfMemoryPeaks"` // days whose memory peak is known
	Killed    string  `json:"oomKilled"`         // by the peaks of these days: yes, no or unknown
	Reason    string  `json:"reason,omitempty"`  // why a part is not known
	Span      int     `json:"-"`                 // on the first of a container: the number of its profiles
}

// An unknownView names profiles whose recommendation is not known for the same reason.
type unknownView struct {
	Profiles []string `json:"profiles"`
	Reason   string   `json:"reason"`
}

// choicesOf returns what the profiles would recommend, by container, and the profiles of which nothing is known.
func choicesOf(sizes []overview.ProfileSize) (known []choiceView, unknown []unknownView) {
	unknown = []unknownView{}
	known = []choiceView{}
	for _, s := range sizes {
		if s.Own || !s.Target.Has.Empty() {
			known = append(known, choiceView{
				Container: s.Container, Profile: s.Profile, Own: s.Own, Target: amounts{s.Target}, Above: s.DaysAbove, Days: s.Days, Killed: s.Killed, Reason: s.Reason,
			})
			continue
		}
		u := cluster.FindOrAdd(&unknown, func(u *unknownView) bool { return u.Reason == s.Reason }, unknownView{Reason: s.Reason})
		if !slices.Contains(u.Profiles, s.Profile) {
			u.Profiles = append(u.Profiles, s.Profile)
		}
	}
	first := 0
	for i := range known {
		if known[i].Container != known[first].Container {
			first = i
		}
		known[first].Span++
	}
	return known, unknown
}

// A command is a command line that a viewer may copy.
type command struct {
	About string `json:"about"`
	Line  string `json:"line"`
}

func (h *handler) workload(w http.ResponseWriter, r *http.Request, v *overview.Viewer, parts []string, q query) {
	const historyTimeout = 5 * time.Second // bounds how long a page waits for the stored usage of a workload
	namespace := parts[0]
	kind := parts[1]
	name := parts[2]
	if !v.Sees(namespace) {
		h.fail(w, r, http.StatusNotFound, "There is no such workload, or you may not see its namespace.")
		return
	}
	s := h.Source.State(r.Context())
	row := s.Overview.Row(namespace, kind, name, q.text("group"))
	if row == nil {
		if !s.Complete() {
			h.fail(w, r, http.StatusServiceUnavailable, "The workload is not known yet: podfit is still reading the cluster. Try again.")
			return
		}
		h.fail(w, r, http.StatusNotFound, "There is no such workload, or you may not see its namespace.")
		return
	}
	view := workloadPage{workloadView: s.viewOf(row), At: s.Overview.At, Commands: commandsOf(row), Patch: patchOf(row), Resizes: []*overview.Resize{}}
	var history overview.History
	var err error
	title := name + " in " + namespace
	// A head that is sent early has the scripts of charts, because it is not known yet whether there are peaks.
	asked := q.text("explain") != ""
	view.CanExplain = h.Explain != nil
	why := h.explain(r.Context(), row.Workload, v, asked || q.text("format") != "json" && s.Overview.Pods <= explainPods)
	began := h.during(w, r, &page{Title: title, Section: "workloads", Charts: true}, func() {
		ctx, cancel := context.WithTimeout(r.Context(), historyTimeout)
		defer cancel()
		history, err = h.Source.History(ctx, row)
		view.add(why, asked)
	})
	if err != nil { // the page shows the rest
		h.Log.Warn("Failed to read the stored usage of a workload", slog.String("workload", row.Workload.String()), slog.Any("error", err))
		view.Trouble = err.Error()
	}
	own := slices.DeleteFunc(slices.Clone(s.Activity), func(e overview.Entry) bool {
		return e.Workload != row.Workload && !(e.Workload.IsZero() && ownsPod(s.Overview, row, e.Pod))
	})
	view.Activity = entryViews(own, 20)
	for _, x := range s.Overview.Resizes {
		if x.Workload == row.Workload {
			view.Resizes = append(view.Resizes, x)
		}
	}
	view.Profiles, view.Unknown = choicesOf(history.Profiles)
	view.Charts = chartsOf(row, &history, own, s.Overview.At)
	view.Unrecorded = history.Unrecorded
	p := pageOf(title, "workloads", s, v, view)
	p.Charts = began || slices.ContainsFunc(view.Charts, func(c chartView) bool { return c.Kind == "peaks" })
	h.show(w, r, "workload", p)
}

// ownsPod reports whether a pod belongs to a workload according to its name. Events name only the pod.
func ownsPod(o *overview.Overview, row *overview.Row, pod cluster.Key) bool {
	w := &row.Workload
	by := cluster.OwnerByName(pod)
	switch {
	case pod.Namespace != w.Namespace:
		return false
	case generated[w.Kind]:
		return by.Kind == w.Kind && by.Name == w.Name
	case by.Name == w.Name || !strings.HasPrefix(pod.Name, w.Name+"-"):
		return by.Name == w.Name && by.Kind != "Pod"
	}
	for _, row := range o.Rows { // for example pay-api beside pay
		if other := &row.Workload; other.Namespace == w.Namespace && other.Name == by.Name {
			return false
		}
	}
	return true
}

// generated are the kinds that cluster.OwnerByName knows. Other controllers name their pods as they like.
var generated = map[string]bool{"Deployment": true, "StatefulSet": true, "DaemonSet": true, "CronJob": true, "Pod": true}

func commandsOf(row *overview.Row) []command {
	w := &row.Workload
	in := " -n " + wording.ShellWord(w.Namespace)
	out := []command{{"Show its pods with their requests", "kubectl get pods" + in + " -o wide"}}
	if row.VPA != "" {
		out = append(out,
			command{"Show the recommendation and its conditions", "kubectl describe vpa " + wording.ShellWord(row.VPA) + in},
			command{"Stop changes of running pods", "kubectl patch vpa " + wording.ShellWord(row.VPA) + in + ` --type merge -p '{"spec":{"updatePolicy":{"updateMode":"Off"}}}'`},
		)
	}
	return out
}

// patchOf returns a strategic merge patch with the recommended requests as YAML, with memory in whole MiB as podfit recommend writes it; "" if
// there is nothing to change or the kind is not known.
// A limit below its new request is raised to it: the API server refuses it otherwise.
func patchOf(row *overview.Row) string {
	patch := review.Patch{}
	for _, c := range row.Containers {
		if c.Wanted(c.Outside) == c.Outside || !c.PodLevel.Empty() { // containers that request more than the pod are refused
			continue
		}
		var requests cluster.Resources // also those that pods have already: the manifest may have others
		limits := c.Limits
		for _, res := range cluster.All {
			if !c.Applies(res) {
				continue
			}
			requests = requests.Set(res, review.Rounded(res, c.Target.Amount(res)))
			if limit, ok := limits.Get(res); ok && limit < requests.Amount(res) {
				limits = limits.Set(res, requests.Amount(res))
			}
		}
		patch.Add(c.Container, c.Sidecar, review.Size{Requests: requests, Limits: limits}.Since(review.Size{Limits: c.Limits}))
	}
	text, err := yaml.Marshal(patch.For(row.Workload))
	if len(patch) == 0 || patch.For(row.Workload) == nil || err != nil {
		return ""
	}
	return string(text)
}

type chartView struct {
	Title string        `json:"title"`
	Kind  string        `json:"kind"` // "peaks", "histogram" or, without usage, ""
	Class string        `json:"-"`
	SVG   template.HTML `json:"-"`
	Note  string        `json:"note,omitempty"`

	Recorded int `json:"hoursFromPrometheus,omitempty"` // how many of the peaks are from Prometheus

	Table [][]string `json:"-"` // the same data for readers who do not see the chart
	Head  []string   `json:"-"`
	Data  chartData  `json:"data"`
}
