// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"io"
	"strings"
	"time"
)

// A summary compares what was requested before with what is requested now.
type summary struct {
	Before, Now amount // requested
	Idle, Spare amount // requested but not used, before and now
	Short, Lack amount // used but not requested, before and now
	Acts        acts
}

func summarize(ws []workload, st *story) summary {
	s := summary{Acts: st.total()}
	for i := range ws {
		w := &ws[i]
		before, now := w.requested()
		s.Before, s.Now = s.Before.plus(before), s.Now.plus(now)
		for _, c := range w.Containers {
			uses, measured := w.needs(c.Name)
			if !measured {
				continue
			}
			n := int64(w.Want)
			s.Idle = s.Idle.plus(c.Before.beyond(uses).times(n))
			s.Short = s.Short.plus(uses.beyond(c.Before).times(n))
			for _, p := range w.counted() {
				s.Spare = s.Spare.plus(p.Has[c.Name].beyond(uses))
				s.Lack = s.Lack.plus(uses.beyond(p.Has[c.Name]))
			}
		}
	}
	return s
}

func (s summary) write(out io.Writer, elapsed time.Duration) {
	rows := [][]string{
		{"", "", "", "BEFORE", "NOW", ""},
		{"requested", "CPU", "", cores(s.Before.CPU), cores(s.Now.CPU), change(s.Before.CPU, s.Now.CPU)},
		{"", "memory", "", gib(s.Before.Memory), gib(s.Now.Memory), change(s.Before.Memory, s.Now.Memory)},
		{"requested, not used (waste)", "CPU", "", cores(s.Idle.CPU), cores(s.Spare.CPU), change(s.Idle.CPU, s.Spare.CPU)},
		{"", "memory", "", gib(s.Idle.Memory), gib(s.Spare.Memory), change(s.Idle.Memory, s.Spare.Memory)},
		{"used, not requested (risk)", "CPU", "", cores(s.Short.CPU), cores(s.Lack.CPU), change(s.Short.CPU, s.Lack.CPU)},
		{"", "memory", "", gib(s.Short.Memory), gib(s.Lack.Memory), change(s.Short.Memory, s.Lack.Memory)},
	}
	fmt.Fprintf(out, "\n%s\n\n", strings.Join(align(rows), "\n"))
	fmt.Fprintf(out, "OOM kills: %d with the requests of the manifests, %d with requests set by podfit.\n", s.Acts.KilledBefore, s.Acts.KilledAfter)
	fmt.Fprintf(out, "podfit evicted %d pods and resized %d in place within %s (minutes:seconds).\n", s.Acts.Evicted, s.Acts.Resized, clock(elapsed))
}

func cores(milli int64) string { return fmt.Sprintf("%.2f cores", float64(milli)/1000) }

func gib(bytes int64) string { return fmt.Sprintf("%.2f GiB", float64(bytes)/(1<<30)) }

// change formats a relative difference in percent.
func change(before, now int64) string {
	if before == 0 {
		return ""
	}
	return fmt.Sprintf("%+.0f%%", 100*float64(now-before)/float64(before))
}
