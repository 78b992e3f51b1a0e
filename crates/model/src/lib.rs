//! Vision Transformers on Burn: loss, gradient as one flat vector, weights in and out.
