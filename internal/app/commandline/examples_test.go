// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package commandline

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestWrapExamples_narrowTerminal_commandsCanStillBeCopied(t *testing.T) {
	const examples = `  podfit recommend                          # the cluster of the kubeconfig
  podfit recommend -n 'team a' --prometheus http://localhost:9090 -o kustomize > out.yaml
  podfit recommend --source metrics         # provisional numbers, without Prometheus and VPAs
`
	for width, want := range map[int]string{
		120: strings.TrimSuffix(examples, "\n"),
		60: `  # the cluster of the kubeconfig
  podfit recommend
  podfit recommend -n 'team a' --prometheus \
      http://localhost:9090 -o kustomize > out.yaml
  # provisional numbers, without Prometheus and VPAs
  podfit recommend --source metrics`,
		34: `  # the cluster of the kubeconfig
  podfit recommend
  podfit recommend -n 'team a' \
      --prometheus \
      http://localhost:9090 -o \
      kustomize > out.yaml
  # provisional numbers, without
  # Prometheus and VPAs
  podfit recommend --source \
      metrics`,
	} {
		if diff := cmp.Diff(want, wrapExamples(examples, width)); diff != "" {
			t.Errorf("%d columns (-want +got)\n%s", width, diff)
		}
	}
	if got, want := wrapExamples("  # Log what podfit would change\n  podfit run", 20), "  # Log what podfit\n  # would change\n  podfit run"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}
