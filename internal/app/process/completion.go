// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package process

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"

	"podfit.dev/podfit/internal/edge/kube"
)

// CompleteFlag sets the values that shells offer for a flag. If the flag is a list, they are offered for each item. It panics if the
// command has no such flag.
func CompleteFlag(c *cobra.Command, flag string, values ...string) {
	CompleteFlagWith(c, flag, func(context.Context) []string { return values })
}

// CompleteFlagWith is CompleteFlag with values that are read when a person asks for them. The context ends after completionTimeout.
func CompleteFlagWith(c *cobra.Command, flag string, read func(context.Context) []string) {
	isList := c.Flags().Lookup(flag).Value.Type() == "stringSlice"
	complete := func(c *cobra.Command, _ []string, typed string) ([]string, cobra.ShellCompDirective) {
		done := ""
		if i := strings.LastIndex(typed, ","); isList && i >= 0 {
			done = typed[:i+1]
		}
		var out []string
		for _, value := range inTime(c.Context(), read) {
			if !strings.Contains(","+done, ","+value+",") && strings.HasPrefix(done+value, typed) {
				out = append(out, done+value)
			}
		}
		directive := cobra.ShellCompDirectiveNoFileComp
		if isList {
			directive |= cobra.ShellCompDirectiveNoSpace
		}
		return out, directive
	}
	if err := c.RegisterFlagCompletionFunc(flag, complete); err != nil {
		panic(err) // the flag has a completion function already
	}
}

// completionTimeout is how long a shell waits for values at most.
const completionTimeout = 2 * time.Second

// inTime returns the values that read returns in time, else none. It does not wait for a read that ignores its context, such as a plugin for
// credentials; the process ends soon.
func inTime(ctx context.Context, read func(context.Context) []string) []string {
	if ctx == nil {
		ctx = context.Background()
	}
	ctx, cancel := context.WithTimeout(ctx, completionTimeout)
	defer cancel()
	values := make(chan []string, 1)
	go func() { values <- read(ctx) }()
	select {
	case v := <-values:
		return v
	case <-ctx.Done():
	}
	select {
	case v := <-values: // at the same moment
		return v
	default:
		return nil
	}
}

// CompleteFromCluster lets shells complete values that the cluster has: the flags for namespaces and contexts, and arguments that the usage line
// of the command names KIND/NAME. It does not replace completions that are set. If the cluster cannot be read, nothing is offered.
func CompleteFromCluster(c *cobra.Command) {
	complete := func(flag string, read func(context.Context) []string) {
		if _, isSet := c.GetFlagCompletionFunc(flag); !isSet && c.Flags().Lookup(flag) != nil {
			CompleteFlagWith(c, flag, read)
		}
	}
	for _, flag := range []string{"namespace", "vpa-object-namespace", "ignored-vpa-object-namespaces", "exclude-namespaces", "web-exclude-namespaces"} {
		complete(flag, func(ctx context.Context) []string { return ClusterNamespaces(ctx, c) })
	}
	complete("context", func(context.Context) []string {
		names, _ := clusterOf(c).Contexts() // without a kubeconfig, nothing is offered
		return names
	})
	if c.ValidArgsFunction != nil || !strings.Contains(c.Use, "KIND/NAME") {
		return
	}
	c.ValidArgsFunction = func(c *cobra.Command, _ []string, typed string) ([]string, cobra.ShellCompDirective) {
		return clusterObjects(c.Context(), c, typed), cobra.ShellCompDirectiveNoFileComp
	}
}

func clusterOf(c *cobra.Command) kube.Config {
	value := func(flag string) string {
		if f := c.Flags().Lookup(flag); f != nil {
			return f.Value.String()
		}
		return ""
	}
	return kube.Config{Kubeconfig: value("kubeconfig"), Context: value("context"), As: value("as"), Component: "completion", Version: BuildVersion(), ReadOnly: true}
}

// ClusterNamespaces returns the namespaces of the cluster that the flags of a command select, none if it cannot be read.
func ClusterNamespaces(ctx context.Context, c *cobra.Command) []string {
	clients, err := kube.NewClients(clusterOf(c))
	if err != nil {
		return nil
	}
	names, _ := clients.Names(ctx, corev1.SchemeGroupVersion.WithResource("namespaces"), "") // without them, nothing is offered
	return names
}

// clusterObjects returns the objects that begin with what is typed: those of the namespaces of --namespace, else of all namespaces.
func clusterObjects(ctx context.Context, c *cobra.Command, typed string) []string {
	var out []string
	for _, namespace := range namespacesOf(c) {
		out = append(out, ObjectNames(ctx, clusterOf(c), namespace, typed)...)
	}
	return out
}

// ObjectNames returns the objects of a namespace that begin with what is typed, those that can be read in time.
func ObjectNames(ctx context.Context, cluster kube.Config, namespace, typed string) []string {
	clients, err := kube.NewClients(cluster)
	if err != nil {
		return nil
	}
	return inTime(ctx, func(ctx context.Context) []string {
		names, _ := clients.ObjectNames(ctx, namespace, typed)
		return names
	})
}

// namespacesOf returns the values of --namespace, or one empty value if there are none.
func namespacesOf(c *cobra.Command) []string {
	f := c.Flags().Lookup("namespace")
	if f == nil || !f.Changed {
		return []string{""}
	}
	names, err := c.Flags().GetStringSlice("namespace")
	if err != nil {
		return []string{f.Value.String()}
	}
	slices.Sort(names)
	return slices.Compact(names) // cobra parses the flags twice
}
