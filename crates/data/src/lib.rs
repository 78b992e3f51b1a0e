//! Images: reading, cropping, resizing, labels and similarity.
