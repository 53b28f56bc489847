// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

// Package commandline executes the command that a command line names: by the name of the binary, as in upstream's images or a plugin of
// kubectl, and by its arguments. It answers wrong calls with the remedy, and prints flags in groups in the help. It contains no command of
// podfit.
package commandline
