// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"podfit.dev/podfit/test/e2e/bed"
)

// files are the files that the demo needs: those of podfit's repository, from which executables are built, or those of the demo archive of a
// release.
type files struct {
	root        string // of the repository; empty in an archive
	executables string // folder with all executables, in an archive; empty in the repository
	deploy      string // folder of podfit's manifests
	podfit      string // path of the executable; in the repository it exists after build
	tool        string // path of the local cluster's command in the repository, after build
}

// findFiles returns the files beside this executable if it is that of an archive, and else those of the repository.
func findFiles() (*files, error) {
	executable, err := os.Executable()
	if err != nil {
		return nil, err
	}
	if f := archived(filepath.Dir(executable)); f != nil {
		return f, nil
	}
	root, err := bed.Root()
	if err != nil {
		return nil, err
	}
	return &files{root: root, deploy: filepath.Join(root, "deploy")}, nil
}

// archived returns the files of an archive whose executables are in a folder, or nil if the folder is not of an archive.
func archived(folder string) *files {
	f := &files{executables: folder, deploy: filepath.Join(filepath.Dir(folder), "deploy"), podfit: filepath.Join(folder, "podfit")}
	for _, path := range []string{f.deploy, f.podfit, filepath.Join(folder, "localcluster")} {
		if _, err := os.Stat(path); err != nil {
			return nil
		}
	}
	return f
}

// build builds what is missing or out of date in the repository. It does nothing in an archive.
func (f *files) build(ctx context.Context, out io.Writer) error {
	if f.root == "" {
		return nil
	}
	build := func() (err error) { f.podfit, err = bed.Build(ctx, f.root, out); return err }
	if err := stage(out, "Building podfit", build); err != nil {
		return err
	}
	build = func() (err error) { f.tool, err = bed.BuildCluster(ctx, f.root, out); return err }
	return stage(out, "Building the local cluster", build)
}

// introduce prints what the demo does and how long it takes.
func (f *files) introduce(out io.Writer, o options, workloads int) {
	fmt.Fprintf(out, `podfit demo: a real Kubernetes control plane with %d simulated nodes, podfit, and %d workloads with wrong requests.
Everything runs on this machine without root, and is stopped and removed at the end.

`, o.Nodes, workloads)
	if f.root != "" {
		fmt.Fprintln(out, "  build podfit and Kubernetes   the first time about 10 minutes of CPU time, later seconds")
	}
	fmt.Fprint(out, `  start the cluster             10 seconds
  watch podfit at work          2 minutes

`)
}

// next returns what is printed at the end of a demo whose cluster is not kept.
func (f *files) next() string {
	const stopping = "\nNow stopping and removing the cluster. What to look at next:\n\n"
	if f.root == "" {
		return stopping + `  KEEP=1 ./demo                      keep the cluster running, with the web page, and get commands to try in it
  https://github.com/podfit/podfit   how podfit works, how to install it, and how to try it in your cluster without changes
`
	}
	return stopping + `  make demo KEEP=1         keep the cluster running, with the web page, and get commands to try in it
  test/e2e/demo/           the workloads of this demo (workloads.yaml)
  README.md                how podfit works, and how to install it in a cluster
  docs/outside.md          run podfit against your cluster from this machine; a dry run changes nothing
`
}
