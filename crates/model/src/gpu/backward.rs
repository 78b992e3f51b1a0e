//! Loss, backward pass, and read-back from the device.

use burn::tensor::{Tensor, TensorData, Transaction, activation::log_softmax};

use super::{Gpu, tensors::Leaf};
use crate::ModelError;

impl Gpu {
    /// Mean over the batch of -log softmax(`logits`) at the label.
    pub(super) fn cross_entropy(&self, logits: Tensor<2>, labels: &[usize]) -> Tensor<1> {
        let targets = self.one_hot(labels);
        let targets = if logits.is_autodiff() { targets.autodiff() } else { targets };
        (log_softmax(logits, 1) * targets).sum().mul_scalar(-1.0 / labels.len() as f64)
    }

    /// Returns `[batch, classes]`: one at the label, zero elsewhere.
    fn one_hot(&self, labels: &[usize]) -> Tensor<2> {
        let classes = self.architecture.classes();
        let mut targets = vec![0.0f32; labels.len() * classes];
        for (row, &label) in targets.chunks_exact_mut(classes).zip(labels) {
            row[label] = 1.0;
        }
        Tensor::from_data(TensorData::new(targets, [labels.len(), classes]), &self.device)
    }

    /// Runs the backward pass of `loss`, then reads the loss, the gradients of `leaves`, and the vectors of `besides`,
    /// in this order.
    pub(super) async fn backward(
        &self,
        loss: Tensor<1>,
        leaves: &[&Leaf],
        besides: Vec<Tensor<1>>,
    ) -> Result<Vec<TensorData>, ModelError> {
        let mut gradients = loss.backward();
        // A single transaction waits for the device only once. On WebGPU, waiting takes most of a step's time.
        let mut transaction = Transaction::default().register(loss.without_autodiff());
        for leaf in leaves {
            transaction = leaf.register(&mut gradients, transaction);
        }
        for tensor in besides {
            transaction = transaction.register(tensor);
        }
        transaction.execute_async().await.map_err(|error| self.failed(error))
    }
}
