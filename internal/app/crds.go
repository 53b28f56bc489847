// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"github.com/spf13/cobra"

	"podfit.dev/podfit/deploy"
	"podfit.dev/podfit/internal/app/commandline"
)

func newCRDsCommand(s Streams) *cobra.Command {
	return &cobra.Command{
		Use: "crds", Short: "Print the CRDs that podfit requires", Args: commandline.NoArguments,
		Long:    "Prints the custom resource definitions that podfit requires, as YAML.",
		Example: "  podfit crds | kubectl apply --server-side --force-conflicts -f -",
		RunE: func(*cobra.Command, []string) error {
			_, err := s.Out.Write(deploy.CRDs())
			return err
		},
	}
}
