// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package explain

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"podfit.dev/podfit/internal/app/process"
	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/core/overview"
	"podfit.dev/podfit/internal/core/wording"
	"podfit.dev/podfit/internal/edge/kube"
	"podfit.dev/podfit/internal/edge/kube/watcher"
	report "podfit.dev/podfit/internal/edge/report/explanation"
	"podfit.dev/podfit/internal/edge/report/terminal"
)

// A Judge returns which workloads of a cluster are at risk, as the web page shows them, and what could not be read.
type Judge func(ctx context.Context, clients *kube.Clients, world *watcher.World, noAutoscalers bool) (o *overview.Overview, missing []string)

// maxListed is the number of workloads in the text, so that it fits on a screen. JSON has all.
const maxListed = 6

type needs struct {
	Workloads int             `json:"workloads"`        // all that were read
	Attention []need          `json:"attention"`        // most severe first
	Frozen    []need          `json:"frozen,omitempty"` // workloads whose pods wait for the end of a freeze
	Unjudged  []overview.Lack `json:"unjudged,omitempty"`
	Missing   []string        `json:"missing,omitempty"`
	namespace string          // "": all
}

// A need is a workload that needs attention.
type need struct {
	Workload string `json:"workload"`
	Severity string `json:"severity,omitempty"`
	Why      string `json:"why,omitempty"`
	Command  string `json:"command"` // that explains it
}

// list lists the workloads that need attention: those of --namespace, else of all namespaces.
func (c *Config) list(ctx context.Context, out io.Writer) error {
	if c.Output == "html" || c.At != "" || c.Container != "" || len(c.If) > 0 {
		return process.UsageError{Err: errors.New("--at, --container, --if and --output=html need an object as KIND/NAME, for example deploy/cart")}
	}
	clients, err := kube.NewClients(c.Kube)
	if err != nil {
		return err
	}
	if err := clients.Responds(ctx); err != nil {
		return err
	}
	if c.Namespace != "" {
		c.jobs.Updater.Restrict(c.Namespace)
	}
	world, read, err := c.load(ctx, clients, c.namespace())
	if err != nil {
		return err
	}
	o, missing := c.judge(ctx, clients, world, read.NoAutoscalers)
	l := needs{Workloads: len(o.Rows), Missing: append(missing, read.Unknown()...), namespace: c.Namespace}
	l.Unjudged, _ = o.Lacks()
	l.Frozen = cluster.Each(o.Frozen(), func(w *cluster.Workload) need { return need{Workload: w.String(), Command: toExplain(*w)} })
	atRisk := o.Select(overview.Query{Risk: "any", Order: overview.ByRisk, Size: max(len(o.Rows), 1)}).Rows
	l.Attention = cluster.Each(atRisk, func(row **overview.Row) need {
		return need{(*row).Workload.String(), (*row).Risk.String(), (*row).Why, toExplain((*row).Workload)}
	})
	if c.Output == "json" {
		return writeJSON(out, l)
	}
	return l.write(out)
}

// write writes the list as wide as the terminal.
func (l *needs) write(out io.Writer) error {
	p := terminal.Printer{Width: process.Columns(out, report.Usual)}
	p.Line(fmt.Sprintf("Workloads that need attention: %d of %d", len(l.Attention), l.Workloads))
	for _, n := range l.Attention[:min(len(l.Attention), maxListed)] {
		p.Line(strings.ToUpper(n.Severity) + "  " + terminal.Plain(n.Workload))
		p.Line("  " + terminal.Plain(n.Why))
		p.Text.WriteString("    " + terminal.Plain(n.Command) + "\n") // on one line, to be copied
	}
	if more := len(l.Attention) - maxListed; more > 0 {
		in := ""
		if l.namespace != "" {
			in = " -n " + l.namespace
		}
		p.Line(fmt.Sprintf("%d more: podfit explain -o json%s", more, in))
	}
	if len(l.Frozen) > 0 {
		p.Line("Frozen, as the updater last reported: pods of " + wording.Count(len(l.Frozen), "workload") + " need a change, but a person has stopped their changes. For example:")
		p.Text.WriteString("    " + terminal.Plain(l.Frozen[0].Command) + "\n")
	}
	for _, u := range l.Unjudged {
		p.Line("Not judged: " + wording.Count(u.Workloads, "workload") + " (" + terminal.Plain(u.Why) + ")")
	}
	for _, m := range l.Missing {
		p.Line("Note: " + terminal.Plain(m))
	}
	_, err := io.WriteString(out, p.Text.String())
	return err
}
