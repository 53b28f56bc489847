// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package explain

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"podfit.dev/podfit/internal/app/explain/messages"
	"podfit.dev/podfit/internal/core/explanation"
	"podfit.dev/podfit/internal/edge/kube"
)

const completionTimeout = 2 * time.Second // a shell waits for it

// complete returns the kinds, or after a kind the names of its objects.
func (c *Config) complete(cmd *cobra.Command, args []string, typed string) ([]string, cobra.ShellCompDirective) {
	if len(args) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	of, name, named := strings.Cut(typed, "/")
	var out []string
	if typed != "" && strings.ToUpper(typed[:1]) == typed[:1] && !named { // names of kinds are in lower case
		out = slices.DeleteFunc(messages.Names(), func(name string) bool { return !strings.HasPrefix(name, typed) })
		return out, cobra.ShellCompDirectiveNoFileComp
	}
	for i := range kinds {
		switch first := kinds[i].names[0]; {
		case !kinds[i].offered:
		case !named && strings.HasPrefix(first, typed):
			out = append(out, first+"/")
		case named && first == of:
			return c.names(cmd.Context(), &kinds[i], name), cobra.ShellCompDirectiveNoFileComp
		}
	}
	return out, cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveNoSpace
}

// names returns the objects of a kind whose names have a prefix; none if they cannot be listed.
func (c *Config) names(ctx context.Context, k *kind, prefix string) []string {
	ctx, cancel := context.WithTimeout(ctx, completionTimeout)
	defer cancel()
	clients, err := kube.NewClients(c.Kube)
	if err != nil {
		return nil
	}
	namespace := ""
	if k.of != explanation.OfNode {
		namespace = c.namespace()
	}
	all, _ := clients.Names(ctx, k.resource(), namespace) // without them, nothing is offered
	var out []string
	for _, name := range all {
		if strings.HasPrefix(name, prefix) {
			out = append(out, k.names[0]+"/"+name)
		}
	}
	return out
}
