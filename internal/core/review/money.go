// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package review

import "podfit.dev/podfit/internal/core/cluster"

// HoursPerMonth is the number of hours in a month, by which prices per hour are multiplied.
const HoursPerMonth = 730

// A Price is the price of resources for one hour.
type Price struct{ Core, GiB float64 }

// Of returns the price of an amount for one month.
func (p Price) Of(r cluster.Resources) float64 {
	return (float64(float64(r.CPU)/1000*p.Core) + float64(float64(r.Memory)/(1<<30)*p.GiB)) * HoursPerMonth
}

// AssumedPrice is the on-demand price of a general-purpose machine at a large cloud provider, in US dollars. It ranks waste if no prices
// are known: only its ratio matters.
func AssumedPrice() Price { return Price{Core: 0.031611, GiB: 0.004237} }

// Prices are the prices of the nodes of a cluster.
type Prices struct {
	PriceSource
	Default Price // of pods that are not on one of Nodes
	Nodes   map[string]Price
}

// A PriceSource is where prices are from, as in JSON.
type PriceSource struct {
	Currency string `json:"currency"` // "" if no prices are known or wanted
	From     string `json:"from"`
	Assumed  bool   `json:"assumed"` // they are an assumption: only their ratio has a meaning
}

// Known reports whether there are prices.
func (p *Prices) Known() bool { return p.Currency != "" }

// At returns the price on a node.
func (p *Prices) At(node string) Price {
	if !p.Known() {
		return AssumedPrice()
	}
	if price, known := p.Nodes[node]; known {
		return price
	}
	return p.Default
}
