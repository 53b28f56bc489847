// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package recommend

// What is stored of each extension has a name of its own (usage.Former): what another algorithm, or one that remembers
// other things, wrote is not read.

// Form names what AppendBinary writes.
func (m *Memo) Form() string { return "adaptive/1" }

// Form names what AppendBinary writes.
func (m *Busy) Form() string { return "busy-hours/1" }

// Form names what AppendBinary writes.
func (m *Models) Form() string { return "autopilot/1" }

// Form names what AppendBinary writes.
func (m *Load) Form() string { return "load/1" }

// Form names what AppendBinary writes.
func (m *Window) Form() string { return "window/1" }

// Form names what AppendBinary writes.
func (m *Seasons) Form() string { return "seasons/1" }
