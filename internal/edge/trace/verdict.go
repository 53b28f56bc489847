// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package trace

import (
	"fmt"
	"strconv"
	"strings"

	"podfit.dev/podfit/internal/core/replay"
)

// Unjudged says why nothing is judged, and what helps.
var Unjudged = fmt.Sprintf("nothing to judge by: no container has a whole day of samples after its first %d days, which are for learning; give a longer history", replay.Learning)

// Judged reports whether there was anything to judge by.
func (r *Report) Judged() bool { return len(r.Best) > 0 }

// verdict says which recommender wins, and within which budget.
func (r *Report) verdict() string {
	said := r.winning()
	if r.Judged() && !r.Chosen {
		said += " " + r.budget()
	}
	return said
}

// budget says where the budget is from, when the user has not chosen it.
func (r *Report) budget() string {
	var from []string
	for _, rec := range r.Recommenders {
		if rec.OOMBudget == r.Tolerance.DaysAbove {
			from = append(from, rec.Name)
		}
	}
	if len(from) == 0 {
		return "None of them promises a share of days; --oom-budget chooses another."
	}
	return "The share of days is the largest that is promised, by " + strings.Join(from, ", ") + "; --oom-budget chooses another."
}

// promises says of each recommender that promises a share of days above the memory request whether it keeps that.
func (r *Report) promises() []string {
	var out []string
	for i, o := range r.Total {
		rec := r.Recommenders[i]
		if rec.OOMBudget == 0 || o.Memory.Days == 0 {
			continue
		}
		verb := "keeps"
		if !o.Keeps(rec.OOMBudget) {
			verb = "does not keep"
		}
		out = append(out, fmt.Sprintf("%s %s its promise of at most %s %% of days above the memory request: %.2f %%.",
			rec.Name, verb, share(rec.OOMBudget), 100*(1-o.Memory.FreeDays)))
	}
	return out
}

// winning says in a sentence which recommender wins.
func (r *Report) winning() string {
	limits := fmt.Sprintf("within %s %% of days above the memory request and %s %% of CPU usage above its request",
		share(r.Tolerance.DaysAbove), share(r.Tolerance.Shortfall))
	if !r.Judged() {
		return capital(Unjudged) + "."
	}
	within := 0
	for _, o := range r.Total {
		if o.Measured() && o.Within(r.Tolerance) {
			within++
		}
	}
	names := r.names(r.Best, " and ")
	switch one := len(r.Best) == 1; {
	case len(r.Total) == 1 && within == 1:
		return names + " is " + limits + "."
	case len(r.Total) == 1:
		return names + " is not " + limits + "."
	case within == 0 && one:
		return "None is " + limits + ". " + names + " does the least harm."
	case within == 0:
		return "None is " + limits + ". " + names + " tie: they do the least harm, for the same money."
	case within == 1:
		return names + " wins: the only one " + limits + "."
	case one:
		return names + " wins: the cheapest of those " + limits + "."
	}
	return names + " tie: they are the cheapest of those " + limits + "."
}

// wins counts the workloads by who wins them.
func (r *Report) wins() string {
	wins := make([]int, len(r.Recommenders))
	ties, short := 0, 0
	for _, wl := range r.Workloads {
		switch len(wl.Best) {
		case 0:
			short++
		case 1:
			wins[wl.Best[0]]++
		default:
			ties++
		}
	}
	var parts []string
	for i, n := range wins {
		parts = append(parts, fmt.Sprintf("%s %d", r.Recommenders[i].Name, n))
	}
	if ties > 0 {
		parts = append(parts, fmt.Sprintf("tied %d", ties))
	}
	if short > 0 {
		parts = append(parts, fmt.Sprintf("too short to judge %d", short))
	}
	return "By workload: " + strings.Join(parts, ", ") + "."
}

// names lists recommenders.
func (r *Report) names(of []int, last string) string {
	var names []string
	for _, i := range of {
		names = append(names, r.Recommenders[i].Name)
	}
	if n := len(names); n > 2 {
		return strings.Join(names[:n-1], ", ") + last + names[n-1]
	}
	return strings.Join(names, last)
}

// winner names who wins alone.
func (r *Report) winner(best []int) string {
	if len(best) != 1 {
		return ""
	}
	return r.Recommenders[best[0]].Name
}

// tied names those that tie.
func (r *Report) tied(best []int) []string {
	if len(best) < 2 {
		return nil
	}
	var names []string
	for _, i := range best {
		names = append(names, r.Recommenders[i].Name)
	}
	return names
}

func share(v float64) string { return strconv.FormatFloat(100*v, 'g', 4, 64) }

func capital(s string) string { return strings.ToUpper(s[:1]) + s[1:] }
