// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

// Code generated from the CRD of SizingProfiles. DO NOT EDIT.

package profile

import "time"

// numberBounds contains the bounds of numbers, by path below spec.
var numberBounds = map[string]bounds[float64]{
	"busyHours.criticality":           {1, 3},
	"busyHours.floorMillicores":       {1, 1e+06},
	"busyHours.from":                  {0, 23},
	"busyHours.mostMillicores":        {1, 1e+06},
	"busyHours.mostOfNode":            {0.05, 1},
	"busyHours.percentile":            {0.5, 1},
	"busyHours.to":                    {0, 24},
	"busyHours.utcOffset":             {-12, 14},
	"cpu.addMillicores":               {0, 1e+06},
	"cpu.factor":                      {0.1, 10},
	"cpu.floorMillicores":             {1, 1e+06},
	"cpu.growBy":                      {0, 1},
	"cpu.shortfall":                   {0.0001, 0.5},
	"cpu.shrinkBy":                    {0.08, 0.95},
	"ensemble.cpu.change":             {0, 100},
	"ensemble.cpu.overrun":            {0.1, 10000},
	"ensemble.cpu.switch":             {0, 100},
	"ensemble.floorMiB":               {1, 1.048576e+06},
	"ensemble.floorMillicores":        {1, 1e+06},
	"ensemble.memory.change":          {0, 100},
	"ensemble.memory.overrun":         {0.1, 10000},
	"ensemble.memory.switch":          {0, 100},
	"histogram.cpuLowerPercentile":    {0.01, 1},
	"histogram.cpuPercentile":         {0.01, 1},
	"histogram.cpuUpperPercentile":    {0.01, 1},
	"histogram.floorMiB":              {1, 1.048576e+06},
	"histogram.floorMillicores":       {1, 1e+06},
	"histogram.margin":                {0, 10},
	"histogram.memoryLowerPercentile": {0.01, 1},
	"histogram.memoryPercentile":      {0.01, 1},
	"histogram.memoryUpperPercentile": {0.01, 1},
	"memory.days":                     {1, 14},
	"memory.floorMiB":                 {1, 1.048576e+06},
	"memory.growBy":                   {0.06, 1},
	"memory.leakBound":                {1.1, 100},
	"memory.longDays":                 {1, 14},
	"memory.margin":                   {-0.5, 3},
	"memory.oomBudget":                {0.001, 0.5},
	"memory.shrinkBy":                 {0.08, 0.95},
	"packed.cpuPercentile":            {0.5, 1},
	"packed.days":                     {3, 7},
	"packed.longDays":                 {7, 14},
	"packed.memoryPercentile":         {0.5, 1},
	"packed.peak":                     {0, 1},
	"packed.reserve":                  {0.15, 0.5},
	"startupBoost.maxFactor":          {1.1, 10},
}

// durationBounds contains the bounds of durations, by path below spec.
var durationBounds = map[string]bounds[time.Duration]{
	"busyHours.startup":        {0 * time.Hour, 1 * time.Hour},
	"canaryDuration":           {1 * time.Minute, 24 * time.Hour},
	"cpu.shrinkAfter":          {0 * time.Hour, 720 * time.Hour},
	"cpu.window":               {1 * time.Hour, 72 * time.Hour},
	"ensemble.cpu.forget":      {1 * time.Hour, 2160 * time.Hour},
	"ensemble.memory.forget":   {1 * time.Hour, 2160 * time.Hour},
	"memory.shrinkAfter":       {0 * time.Hour, 720 * time.Hour},
	"startupBoost.maxDuration": {0 * time.Hour, 15 * time.Minute},
}

// lengthBounds contains the maximum lengths of strings in characters, by path below spec.
var lengthBounds = map[string]int{
	"about":                    200,
	"busyHours.startup":        24,
	"busyHours.timeZone":       64,
	"canaryDuration":           24,
	"cpu.shrinkAfter":          24,
	"cpu.window":               24,
	"ensemble.cpu.forget":      24,
	"ensemble.memory.forget":   24,
	"memory.shrinkAfter":       24,
	"startupBoost.maxDuration": 24,
}
