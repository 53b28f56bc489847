// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"github.com/spf13/cobra"

	"podfit.dev/podfit/deploy"
)

func newCRDsCommand(s Streams) *cobra.Command {
	return &cobra.Command{
		Use: "crds", Short: "Print the CRDs this binary needs", Args: cobra.NoArgs,
		Long:    "Prints the custom resource definitions this binary needs, as YAML.",
		Example: "  podfit crds | kubectl apply -f -",
		RunE: func(*cobra.Command, []string) error {
			_, err := s.Out.Write(deploy.CRDs())
			return err
		},
	}
}
