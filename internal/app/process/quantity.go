// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package process

import (
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/api/resource"
)

// Quantity is a flag value that holds a Kubernetes quantity. The empty string means unset.
type Quantity struct {
	resource.Quantity
	Given bool // the flag is set and not empty
}

// Set reads a quantity.
func (q *Quantity) Set(text string) error {
	if strings.TrimSpace(text) == "" {
		*q = Quantity{}
		return nil
	}
	v, err := resource.ParseQuantity(text)
	if err != nil {
		return fmt.Errorf("%q is not a quantity such as 500m or 2Gi: %w", text, err)
	}
	if v.Sign() < 0 {
		return fmt.Errorf("must not be negative, got %q", text)
	}
	*q = Quantity{Quantity: v, Given: true}
	return nil
}

// String returns the quantity, or "" if it is unset.
func (q *Quantity) String() string {
	if !q.Given {
		return ""
	}
	return q.Quantity.String()
}

// Type names the flag's type in help texts.
func (q *Quantity) Type() string { return "quantity" }
