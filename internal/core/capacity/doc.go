// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

// Package capacity forecasts when the requests of a pool of nodes reach its capacity: by the trend, the season and the steps of the daily
// maximum of requests, with a band that is calibrated by the errors of the model's own past forecasts.
//
// Measure adds up requests and capacity, History keeps one value per day, and Assess returns the dates. A date is only returned if the
// history supports it: otherwise the result contains the reason why there is none. The package does not read the clock and does no input
// or output.
package capacity
