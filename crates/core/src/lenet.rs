//! The small convolutional network that Deep Leakage from Gradients (Zhu, Liu and Han, NeurIPS 2019) calls LeNet.

use crate::{ParamLayout, SizeError, VitConfig, size::number};

/// Three 5 x 5 convolutions with biases, each followed by a sigmoid, and a linear head on all values. Without batch
/// norm or pooling, the gradient reveals much about the input.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct LenetConfig {
    /// Output channels of each convolution; 12 in the paper.
    pub width: usize,
    /// Image side in pixels.
    pub side: usize,
    /// Classes of the head; 0 if there is no head.
    pub classes: usize,
}

impl LenetConfig {
    pub const STRIDES: [usize; 3] = [2, 2, 1];
    /// Side of the filters. Inputs are padded with two pixels of zeros on each side.
    pub const KERNEL: usize = 5;
    /// The networks offered by name, with ten classes: the paper's and a wider one.
    pub const NAMED: [Self; 2] = [Self { width: 12, side: 32, classes: 10 }, Self { width: 32, side: 32, classes: 10 }];
    pub(crate) const NAMES: [&str; 2] = ["lenet_width12_32", "lenet_width32_32"];

    /// A name such as `lenet_width12_32`: channels and image side.
    pub fn name(&self) -> String {
        format!("lenet_width{}_{}", self.width, self.side)
    }

    /// Parses a name as a network with ten classes; `None` if the name has another form.
    pub(crate) fn numbered(name: &str) -> Option<Self> {
        let (width, side) = name.strip_prefix("lenet_width")?.split_once('_')?;
        Some(Self { width: number(width)?, side: number(side)?, classes: 10 })
    }

    /// Checks that a LeNet can have these numbers.
    ///
    /// # Errors
    /// [`SizeError`] names the invalid number.
    pub fn check(&self) -> Result<(), SizeError> {
        SizeError::range("width", self.width, 1, 2048)?;
        SizeError::range("image", self.side, 1, 1024)?;
        SizeError::range("classes", self.classes, 0, u16::MAX.into())
    }

    /// Input channels of each convolution.
    pub fn inputs(&self) -> [usize; 3] {
        [VitConfig::CHANNELS, self.width, self.width]
    }

    /// Input values of the head: all channels at all positions.
    pub fn features(&self) -> usize {
        let side = Self::STRIDES.into_iter().fold(self.side, |side, stride| side.div_ceil(stride));
        self.width * side * side
    }

    /// Number of parameters P. Unlike the layout's length, it cannot overflow on a 32-bit machine.
    pub(crate) fn parameters(&self) -> u64 {
        let filters: usize =
            self.inputs().into_iter().map(|input| self.width * (input * Self::KERNEL.pow(2) + 1)).sum();
        filters as u64 + self.classes as u64 * (self.features() as u64 + 1)
    }
}

impl ParamLayout {
    /// The layout of a LeNet's weights: `conv1` to `conv3`, then `fc`.
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

    /// The authors' code has 12 channels and 768 features for 32 x 32 pixels.
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
