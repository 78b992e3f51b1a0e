//! The small convolutional network of Deep Leakage from Gradients (Zhu, Liu and Han, NeurIPS 2019), which they call LeNet.

use crate::{ParamLayout, SizeError, VitConfig, size::number};

/// Three 5 x 5 convolutions with biases, each with a sigmoid behind it, and a linear head on all values of the last: no
/// batch norm, no pooling, so that its gradient says much about its input.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct LenetConfig {
    /// Channels behind each convolution; 12 in the paper.
    pub width: usize,
    /// Image side in pixels.
    pub side: usize,
    /// Of the head; 0 where there is no head.
    pub classes: usize,
}

impl LenetConfig {
    /// Of each of the three convolutions.
    pub const STRIDES: [usize; 3] = [2, 2, 1];
    /// Side of their filters; two pixels of zeros are added on every side of what they see.
    pub const KERNEL: usize = 5;
    /// Those that are offered by name, with ten classes: the paper's, and a wider one.
    pub const NAMED: [Self; 2] = [Self { width: 12, side: 32, classes: 10 }, Self { width: 32, side: 32, classes: 10 }];
    /// Their names.
    pub(crate) const NAMES: [&str; 2] = ["lenet_width12_32", "lenet_width32_32"];

    /// Such as `lenet_width12_32`: channels, and the side of the images.
    pub fn name(&self) -> String {
        format!("lenet_width{}_{}", self.width, self.side)
    }

    /// The one of that name, with ten classes; `None` where the name is of another form.
    pub(crate) fn numbered(name: &str) -> Option<Self> {
        let (width, side) = name.strip_prefix("lenet_width")?.split_once('_')?;
        Some(Self { width: number(width)?, side: number(side)?, classes: 10 })
    }

    /// Whether such a network can have these numbers.
    ///
    /// # Errors
    /// [`SizeError`] names the number that will not do.
    pub fn check(&self) -> Result<(), SizeError> {
        SizeError::range("width", self.width, 1, 2048)?;
        SizeError::range("image", self.side, 1, 1024)?;
        SizeError::range("classes", self.classes, 0, u16::MAX.into())
    }

    /// Channels that come into each of its convolutions.
    pub fn inputs(&self) -> [usize; 3] {
        [VitConfig::CHANNELS, self.width, self.width]
    }

    /// Values that reach the head: all channels at all places.
    pub fn features(&self) -> usize {
        let side = Self::STRIDES.into_iter().fold(self.side, |side, stride| side.div_ceil(stride));
        self.width * side * side
    }

    /// Number of parameters P. Unlike the layout's length it fits its type on every machine.
    pub(crate) fn parameters(&self) -> u64 {
        let filters: usize =
            self.inputs().into_iter().map(|input| self.width * (input * Self::KERNEL.pow(2) + 1)).sum();
        filters as u64 + self.classes as u64 * (self.features() as u64 + 1)
    }
}

impl ParamLayout {
    /// The layout of its weights: `conv1` to `conv3`, then `fc`.
    pub fn lenet(config: &LenetConfig) -> Self {
        let mut layout = Self::empty();
        for (index, input) in (1..).zip(config.inputs()) {
            layout
                .push(format!("conv{index}.weight"), &[config.width, input, LenetConfig::KERNEL, LenetConfig::KERNEL]);
            layout.push(format!("conv{index}.bias"), &[config.width]);
        }
        if config.classes > 0 {
            layout.push("fc.weight".into(), &[config.classes, config.features()]);
            layout.push("fc.bias".into(), &[config.classes]);
        }
        layout
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ParamGroup;

    /// 768 features, as the authors' code has them for 32 x 32 pixels, and their 12 channels.
    #[test]
    fn the_papers_network_has_its_shapes() {
        let config = LenetConfig::NAMED[0];
        let layout = ParamLayout::lenet(&config);
        assert_eq!(config.features(), 768);
        assert_eq!(layout.get("fc.weight").unwrap().shape, [10, 768]);
        assert_eq!(layout.get("conv1.weight").unwrap().shape, [12, 3, 5, 5]);
        assert_eq!(layout.len(), 12 * 76 + 2 * 12 * 301 + 10 * 769);
        for param in &layout {
            let is_head = param.name.starts_with("fc.");
            assert_eq!(param.group, if is_head { ParamGroup::Head } else { ParamGroup::Conv }, "{}", param.name);
        }
    }

    #[test]
    fn a_name_is_its_numbers() {
        for (config, name) in LenetConfig::NAMED.into_iter().zip(LenetConfig::NAMES) {
            assert_eq!((config.name().as_str(), LenetConfig::numbered(name)), (name, Some(config)));
        }
        for config in [LenetConfig { width: 7, side: 15, classes: 10 }, LenetConfig { width: 1, side: 1, classes: 10 }]
        {
            assert_eq!(LenetConfig::numbered(&config.name()), Some(config));
            assert_eq!(config.parameters(), ParamLayout::lenet(&config).len() as u64);
            config.check().unwrap();
        }
        for wrong in ["lenet", "lenet_width12", "lenet_width_32", "lenet_width12_32_x", "lenet_width1e3_32"] {
            assert_eq!(LenetConfig::numbered(wrong), None, "{wrong}");
        }
        let error = LenetConfig { width: 0, ..LenetConfig::NAMED[0] }.check().unwrap_err().to_string();
        assert!(error.contains("width is 0; give 1 to 2048"), "{error}");
    }
}
