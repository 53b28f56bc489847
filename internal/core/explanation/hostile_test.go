// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package explanation

import (
	"strings"
	"testing"

	"podfit.dev/podfit/internal/core/cluster"
)

func TestYou_hostileNames_areQuotedInCommands(t *testing.T) {
	const hostile = `a'; rm -rf "$HOME" #`
	const inShell = `'a'\''; rm -rf "$HOME" #'`
	in := quietInput("cart-0", hostile)
	in.Autoscaler.Namespace, in.Autoscaler.Name = hostile, hostile
	in.Subject.Workload.Namespace, in.Subject.Command = hostile, "deploy/"+hostile
	in.oomKilled(1, 1, minutesAgo(5))
	in.protect(1, 2)
	in.Pods[0].Node = hostile
	in.leave(0, noRoom)
	in.Containers = []Container{{Name: hostile, Image: "openjdk"}}
	edits(limitCPU(100, 10), scaledBy(cluster.CPU, ""))(in)
	in.Pods[0].Containers[0].Name = hostile
	commands := 0
	for _, a := range you(in, situations(in), next(in)) {
		if a.Command == "" {
			continue
		}
		commands++
		rest := strings.ReplaceAll(strings.ReplaceAll(a.Command, inShell, "NAME"), `'deploy/a'\''; rm -rf "$HOME" #'`, "NAME")
		if strings.Contains(rest, "rm -rf") || !strings.Contains(rest, "NAME") {
			t.Errorf("the name is not quoted: %s", a.Command)
		}
	}
	if commands < 5 {
		t.Errorf("%d commands, want at least 5", commands)
	}
}
